"""Make docs/images/dashboard.svg: the dashboard of a real run, as it looked while a killed worker was replaced.

    python tools/make_readme_picture.py

The run is the demo's; its snapshot is taken by a callback and drawn once, by the same panels as in the terminal.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from gpu_dispatch import Dispatcher
from gpu_dispatch.testing.demo_worker import DemoWorker, demo_items
from gpu_dispatch.ui.panels.layout import dashboard
from gpu_dispatch.ui.readings import Readings

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "dashboard.svg"
WIDTH, HEIGHT = 110, 30
TASKS = 1200


def snapshot_of_a_run() -> dict[str, Any]:
    taken: dict[str, Any] = {}
    dispatcher = Dispatcher(DemoWorker, gpu_ids=[0, 1, 2, 3], suppress_worker_output=True)

    def look(task_id: int, result: Any, worker_id: int) -> None:
        stats = dispatcher.get_stats()
        starting = ("initializing", "restarting")
        if any(gpu["restarts"] and gpu["status"] in starting for gpu in stats["gpu_status"].values()):
            taken.update(Readings(dict).added_to(stats))  # the last one stays

    dispatcher.run(demo_items(TASKS), look, task_timeout=2.0, total_tasks=TASKS)
    if not taken:
        raise SystemExit("no worker was seen restarting: the demo has changed, or restarts are not counted any more")
    return taken


def svg_of(snapshot: dict[str, Any]) -> str:
    console = Console(record=True, file=io.StringIO(), width=WIDTH, force_terminal=True, color_system="truecolor")
    console.print(dashboard(snapshot, WIDTH, HEIGHT))
    svg = console.export_svg(title="python -m gpu_dispatch demo", theme=SVG_EXPORT_THEME)
    # Rich links a font on a foreign server. The reader's own monospace font will do.
    svg = re.sub(r"\s*@font-face\s*{.*?}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: Fira Code, monospace", "font-family: ui-monospace, Menlo, Consolas, monospace", svg)
    # Element ids carry a random-looking hash of the content; the picture is embedded as a file, so a plain one will do.
    return re.sub(r"terminal-\d+", "dashboard", svg)


if __name__ == "__main__":
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(svg_of(snapshot_of_a_run()), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(PICTURE.parents[2])}")
