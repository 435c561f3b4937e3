"""What a process loads: a worker no more than it needs, a parent nothing that has to be installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from plain_workers import Modules
from recording import run

import gpu_dispatch

SOURCE = Path(gpu_dispatch.__file__).parents[1]
NOT_IN_A_WORKER = {
    "gpu_dispatch.ui", "gpu_dispatch.web", "gpu_dispatch.cli", "gpu_dispatch.engine", "gpu_dispatch.scheduling",
    "gpu_dispatch.backends", "gpu_dispatch.devices", "gpu_dispatch.multigpu", "gpu_dispatch.transcription",
    "gpu_dispatch.observe", "ray", "numpy", "rich", "torch", "pandas", "tqdm", "cloudpickle", "psutil", "pytest",
    "multiprocessing", "concurrent", "asyncio", "subprocess", "logging",
}  # fmt: skip


def test_a_worker_process_loads_no_more_than_it_needs() -> None:
    loaded = run(Modules, [0], gpu_ids=[0]).successes[0]

    heavy = [name for name in loaded if NOT_IN_A_WORKER & {name, *_parents(name)}]
    assert not heavy


def _parents(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts))}


def in_a_bare_interpreter(code: str) -> subprocess.CompletedProcess[str]:
    """Nothing but the standard library and this package: no site-packages."""
    return subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_everything_public_can_be_had_without_any_other_package() -> None:
    done = in_a_bare_interpreter("import gpu_dispatch as g; print(len([getattr(g, name) for name in g.__all__]))")

    assert done.stdout.strip() == str(len(gpu_dispatch.__all__)), done.stderr


def test_a_run_needs_no_other_package(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from gpu_dispatch import BaseWorker\n"
        "class Doubler(BaseWorker):\n"
        "    def setup(self, gpu_id, seed): pass\n"
        "    def process(self, item): return item * 2\n"
    )
    done = in_a_bare_interpreter(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from gpu_dispatch import Dispatcher\n"
        "from mine import Doubler\n"
        "stats = Dispatcher(Doubler, [0, 1]).run(range(50), lambda *_: None)\n"
        "print(stats['completed'])\n"
    )

    assert done.stdout.strip() == "50", done.stderr


def test_importing_the_package_loads_next_to_nothing() -> None:
    code = "import sys; before = set(sys.modules); import gpu_dispatch; print(sorted(set(sys.modules) - before))"
    loaded = in_a_bare_interpreter(code).stdout

    assert "gpu_dispatch" in loaded
    for name in ("dispatcher", "engine", "subprocess", "threading"):
        assert name not in loaded


def test_a_parent_loads_nothing_before_the_first_result_that_only_some_runs_need(tmp_path: Path) -> None:
    """Each of these takes longer to import than a task takes to cross to a worker and back."""
    (tmp_path / "mine.py").write_text(
        "from gpu_dispatch import BaseWorker\n"
        "class Same(BaseWorker):\n"
        "    def setup(self, gpu_id, seed): pass\n"
        "    def process(self, item): return item\n"
    )
    done = in_a_bare_interpreter(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from gpu_dispatch import Dispatcher\n"
        "from mine import Same\n"
        "Dispatcher(Same, [0]).run([1], lambda *_: print(*sys.modules))\n"
    )

    loaded = set(done.stdout.split())
    assert "gpu_dispatch.engine.loop" in loaded, done.stderr
    rarely_needed = {"dataclasses", "inspect", "pathlib", "pickle", "socket", "statistics", "traceback", "typing"}
    assert not loaded & rarely_needed
    assert not {"gpu_dispatch.backends.inline", "gpu_dispatch.runtime.entry"} & loaded
