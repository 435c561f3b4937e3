"""From the callbacks of a run to records in the output: each with its task's input beside it.

    {"task_id": 0, "input": …, "result": …, "worker": 0}
    {"task_id": 1, "input": …, "error": "Traceback …", "kind": "error", "attempt": 1, "worker": 0}
    {"task_id": 2, "input": …, "error": "timed out after 5 s", "kind": "timeout", "worker": 1}
    {"task_id": null, "input": "the row as text", "error": "data.jsonl, line 7: not JSON …", "kind": "input"}

A record with "error" is a failure, one with "result" a success. Tasks that were cancelled by Ctrl-C or SIGTERM have
no record: they were not done. With ``--timings`` a record has "seconds", the time that was spent in the worker.

Only the inputs of tasks that are on their way are remembered, ``queue_size`` at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpu_dispatch.cli.output import JsonLines
from gpu_dispatch.cli.readers import BadRow
from gpu_dispatch.protocol import ProgressEvent


class Records:
    """The callbacks. Outcomes are told on the caller's thread; items are taken, and bad rows met, on the feeder's."""

    def __init__(self, output: JsonLines) -> None:
        self._output = output
        self._inputs: dict[int, Any] = {}
        self._seconds: dict[int, float] = {}
        self.unreadable = 0
        self.setup_failures: list[tuple[Any, str]] = []

    def remember(self, items: Iterable[Any], limit: int | None = None) -> Iterator[Any]:
        """Hand the items on, remembering each under the number that its task will have."""
        task_id = 0
        for item in items:
            if isinstance(item, BadRow):
                self.unreadable += 1
                self._write(None, item.text, error=f"{item.source}: {item.reason}", kind="input")
                continue
            self._inputs[task_id] = item
            yield item
            task_id += 1
            if task_id == limit:
                return

    def on_success(self, task_id: int, result: Any, worker_id: int) -> None:
        self._settle(task_id, result=result, worker=worker_id)

    def on_error(self, task_id: int, error: str, worker_id: int) -> None:
        kind = getattr(error, "kind", "error")
        if kind == "cancelled":
            self._inputs.pop(task_id)
            return
        self._settle(task_id, error=str(error), kind=kind, attempt=getattr(error, "attempt", 1), worker=worker_id)

    def on_timeout(self, task_id: int, timeout: float, worker_id: int) -> None:
        self._settle(task_id, error=f"timed out after {timeout:g} s", kind="timeout", worker=worker_id)

    def on_setup_fail(self, gpu_id: Any, error: str) -> None:
        self.setup_failures.append((gpu_id, error))

    def on_progress(self, event: ProgressEvent) -> None:
        """For ``--timings``. A task's last event comes before its outcome."""
        if event.kind == "finished" and event.duration_s is not None and event.task_id is not None:
            self._seconds[event.task_id] = round(event.duration_s, 6)

    def _settle(self, task_id: int, **rest: Any) -> None:
        if task_id in self._seconds:
            rest["seconds"] = self._seconds.pop(task_id)
        self._write(task_id, self._inputs.pop(task_id), **rest)

    def _write(self, task_id: int | None, value: Any, **rest: Any) -> None:
        self._output.write({"task_id": task_id, "input": value, **rest})
