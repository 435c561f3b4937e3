"""Watch a run: four simulated GPUs, a few broken items, one that hangs, one that kills its worker.

python examples/demo.py            the live dashboard
python examples/demo.py | cat      plain lines, as in a log file
"""

from __future__ import annotations

from gpu_dispatch.testing.demo_worker import DemoWorker, demo_items
from gpu_dispatch.ui import RichDispatcher

TASKS = 1200


def main() -> None:
    labels: dict[str, int] = {}

    def count_label(task_id: int, result: dict[str, str], worker_id: int) -> None:
        labels[result["label"]] = labels.get(result["label"], 0) + 1

    dispatcher = RichDispatcher(DemoWorker, gpu_ids=[0, 1, 2, 3], refresh_rate=4.0)
    stats = dispatcher.run(
        generator=demo_items(TASKS),  # any iterable will do
        on_success=count_label,
        task_timeout=2.0,  # seconds; the item that hangs is reported after that, and the worker goes on
        total_tasks=TASKS,  # a generator has no length; with it there is a bar and an ETA
    )
    print(f"{stats['completed']} of {stats['total']} pictures labelled: {labels}")


if __name__ == "__main__":  # worker processes import this file too
    main()
