"""Callbacks: on the caller's thread, in order, each outcome exactly once.

A callback that raises stops the run: nothing more is pulled, what runs may finish, and the exception is raised from
``run()`` when the workers are gone. Outcomes that arrive until then are still delivered: a result is never lost
because an earlier callback failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from gpu_dispatch.engine import notices as note
from gpu_dispatch.engine.credit import Credit
from gpu_dispatch.engine.portions import in_portions
from gpu_dispatch.observe.stats import RunStats
from gpu_dispatch.options import RunArguments
from gpu_dispatch.protocol import Outcome, TaskError, TaskSuccess, TaskTimeout

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any


class Delivery:
    def __init__(
        self,
        arguments: RunArguments,
        stats: RunStats,
        credit: Credit,
        on_callback_error: Callable[[BaseException], None],
    ) -> None:
        self._arguments = arguments
        self._stats = stats
        self._credit = credit
        self._on_callback_error = on_callback_error
        self.error: BaseException | None = None
        """The first exception of a callback."""
        self.muted = False
        """Set when somebody wants out at once: no callback is begun any more, what it would have told stays pending."""

    def deliver(self, notice: note.Notice) -> None:
        if self.muted:
            return
        arguments = self._arguments
        if isinstance(notice, note.Succeeded):
            for portion in in_portions(notice, on_stray=lambda error: self._callback_failed(error, None)):
                self._deliver_outcomes(portion)
        elif isinstance(notice, note.Failed):
            self._deliver_outcomes(notice)
        elif isinstance(notice, note.Started):
            for task_id in notice.task_ids:
                self._call(arguments.on_task_start, task_id, notice.worker_id)
        elif isinstance(notice, note.Happened):
            self._call(arguments.on_progress, notice.event)
        elif isinstance(notice, note.SetupGivenUp):
            self._call(arguments.on_setup_fail, notice.gpu_id, notice.text)
        elif isinstance(notice, note.Draining):
            print(notice.text, file=sys.stderr)

    def outcomes(self, notice: note.Notice) -> Iterator[Outcome]:
        """The same as values instead of callbacks, for ``stream()``, which gives the credit back when each is taken."""
        if isinstance(notice, note.Succeeded):
            for portion in in_portions(notice):
                if not self.muted:
                    yield from self._as_outcomes(portion)
        elif isinstance(notice, note.Failed):
            yield from self._as_outcomes(notice)
        else:
            self.deliver(notice)

    def _as_outcomes(self, notice: note.Succeeded | note.Failed) -> Iterator[Outcome]:
        self._count(notice)
        if isinstance(notice, note.Succeeded):
            for task_id, value in zip(notice.task_ids, notice.values, strict=True):
                yield TaskSuccess(task_id, value, notice.worker_id)
        elif notice.word == "timeout":
            timeout = self._arguments.task_timeout or 0.0
            yield TaskTimeout(notice.task_id, timeout, notice.worker_id)
        else:
            yield TaskError(notice.task_id, notice.report, notice.worker_id)

    def _deliver_outcomes(self, notice: note.Succeeded | note.Failed) -> None:
        if self.muted:
            return
        arguments = self._arguments
        self._count(notice)
        if isinstance(notice, note.Succeeded):
            self._deliver_successes(notice)
            self._credit.give_back(len(notice.task_ids))
            return
        if notice.word == "timeout":
            self._call(arguments.on_timeout, notice.task_id, arguments.task_timeout, notice.worker_id)
        else:
            self._call(arguments.on_error, notice.task_id, notice.report, notice.worker_id)
        self._credit.give_back(1)

    def _deliver_successes(self, notice: note.Succeeded) -> None:
        on_success, worker_id = self._arguments.on_success, notice.worker_id
        if on_success is None:
            return
        task_id = -1
        left = zip(notice.task_ids, notice.values, strict=True)
        try:
            for task_id, value in left:
                on_success(task_id, value, worker_id)
        except BaseException as error:
            self._callback_failed(error, task_id)
            for task_id, value in left:
                if not self.muted:
                    self._call(on_success, task_id, value, worker_id)

    def _call(self, callback: Callable[..., Any] | None, *values: Any) -> None:
        if callback is None:
            return
        try:
            callback(*values)
        except BaseException as error:
            self._callback_failed(error, values[0] if isinstance(values[0], int) else None)

    def _callback_failed(self, error: BaseException, task_id: int | None) -> None:
        if self.error is None:
            self.error = error
            if task_id is not None and hasattr(error, "add_note"):
                error.add_note(f"raised by a callback of gpu_dispatch, for task {task_id}")
        self._on_callback_error(error)

    def _count(self, notice: note.Succeeded | note.Failed) -> None:
        stats = self._stats
        if isinstance(notice, note.Succeeded):
            stats.succeeded(notice.slot, notice.task_ids, notice.busy_s)
        else:
            text = str(notice.report)
            stats.failed_one(notice.slot, notice.task_id, notice.word, notice.kind, text, notice.busy_s)
