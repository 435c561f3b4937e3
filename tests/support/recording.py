"""A run whose every word is written down, and the check that the words add up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gpu_dispatch import BaseWorker, Dispatcher


class Record:
    """All that a run told its callbacks."""

    def __init__(self) -> None:
        self.order: list[tuple[str, Any]] = []
        self.successes: dict[int, Any] = {}
        self.errors: dict[int, Any] = {}
        self.timeouts: dict[int, float] = {}
        self.workers: dict[int, int] = {}
        self.settled: Counter[int] = Counter()
        self.told_at: dict[int, float] = {}
        self.started: list[int] = []
        self.setup_failures: list[tuple[Any, str]] = []
        self.exits = 0
        self.stats: dict[str, Any] = {}
        self.elapsed_s = 0.0

    def on_success(self, task_id: int, result: Any, worker_id: int) -> None:
        self._settle("success", task_id, worker_id)
        self.successes[task_id] = result

    def on_error(self, task_id: int, error: str, worker_id: int) -> None:
        self._settle("error", task_id, worker_id)
        self.errors[task_id] = error

    def on_timeout(self, task_id: int, timeout: float, worker_id: int) -> None:
        self._settle("timeout", task_id, worker_id)
        self.timeouts[task_id] = timeout

    def on_task_start(self, task_id: int, worker_id: int) -> None:
        self.order.append(("start", task_id))
        self.started.append(task_id)

    def on_setup_fail(self, gpu_id: Any, error: str) -> None:
        self.order.append(("setup_fail", gpu_id))
        self.setup_failures.append((gpu_id, error))

    def on_exit(self) -> None:
        self.order.append(("exit", None))
        self.exits += 1

    def _settle(self, word: str, task_id: int, worker_id: int) -> None:
        self.order.append((word, task_id))
        self.settled[task_id] += 1
        self.workers[task_id] = worker_id
        self.told_at[task_id] = time.monotonic()

    def callbacks(self) -> dict[str, Any]:
        """For ``run(**record.callbacks())``; without ``on_task_start``, which makes every start be told."""
        names = ("on_success", "on_error", "on_timeout", "on_setup_fail", "on_exit")
        return {name: getattr(self, name) for name in names}

    def check(self, tasks: int) -> None:
        """Each of the tasks 0 … n-1 was settled once, the figures agree, and on_exit came once, last."""
        lost = sorted(set(range(tasks)) - set(self.settled))
        assert not lost, f"{len(lost)} tasks were never told of: {lost[:10]}"
        twice = {task: count for task, count in self.settled.items() if count > 1}
        assert not twice, f"told more than once: {twice}"
        unknown = sorted(set(self.settled) - set(range(tasks)))
        assert not unknown, f"told of tasks that nobody submitted: {unknown[:10]}"
        cancelled = sum(error.kind == "cancelled" for error in self.errors.values())
        figures = {
            name: self.stats[name] for name in ("total", "completed", "failed", "timeouts", "cancelled", "pending")
        }
        assert figures == {
            "total": tasks,
            "completed": len(self.successes),
            "failed": len(self.errors) - cancelled,
            "timeouts": len(self.timeouts),
            "cancelled": cancelled,
            "pending": 0,
        }
        assert self.exits == 1
        assert self.order[-1] == ("exit", None)


def run(
    worker_cls: type[BaseWorker],
    items: Iterable[Any],
    gpu_ids: Sequence[int] | str = (0, 1),
    *,
    task_timeout: float | None = None,
    base_seed: int = 42,
    record: Record | None = None,
    setup: dict[str, Any] | None = None,
    **options: Any,
) -> Record:
    """Run with every callback recorded. The record is filled in even when the run raises: pass one to look at."""
    record = record or Record()
    gpu_ids = gpu_ids if isinstance(gpu_ids, str) else list(gpu_ids)
    dispatcher = Dispatcher(worker_cls, gpu_ids, **options)
    started = time.monotonic()
    try:
        dispatcher.run(items, **record.callbacks(), base_seed=base_seed, task_timeout=task_timeout, **(setup or {}))
    finally:
        record.elapsed_s = time.monotonic() - started
        record.stats = dispatcher.get_stats()
    return record


def executions(history: Path) -> Counter[int]:
    """How often each task was executed, from the file to which workers append one line per execution."""
    return Counter(int(line) for line in history.read_text().split())
