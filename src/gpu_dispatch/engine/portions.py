"""Opening results a few at a time, on the thread that hands them over.

A frame brings hundreds. Opened all at once, by the loop, they would leave its core's cache before they are handed over
by another thread, on another core: that took a tenth more processor time. And to open a result may run user code,
which may be slow: no limit of another task may wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpu_dispatch.engine.notices import Failed, Succeeded
from gpu_dispatch.engine.reports import report_of_unopened

PORTION = 64
"""Fewer, and what is done once per portion shows; more, and the first is cold when the last is opened."""


def in_portions(
    notice: Succeeded, on_stray: Callable[[BaseException], None] | None = None
) -> Iterator[Succeeded | Failed]:
    """The same, opened. A result that will not open becomes its task's failure.

    ``on_stray`` is told of errors that come from elsewhere meanwhile, such as a signal handler of the user's; without
    it they are raised, and what is left is not handed over.
    """
    if notice.opener is None:
        yield notice
        return
    slot, worker_id = notice.slot, notice.worker_id
    for start in range(0, len(notice.task_ids), PORTION):
        some = slice(start, start + PORTION)
        answered = notice.opener(list(notice.task_ids[some]), notice.values[some], list(notice.busy_s[some]), 0)
        if answered.task_ids:
            yield Succeeded(slot, worker_id, answered.task_ids, answered.values, answered.busy_s, 0)
        for task_id, busy_s, failure in answered.failures:
            attempt = notice.attempts.get(task_id, 1) if notice.attempts else 1
            report = report_of_unopened(task_id, failure.text, worker_id, attempt)
            yield Failed(slot, worker_id, task_id, "error", failure.kind, report, busy_s)
        if answered.stray is not None:
            if on_stray is None:
                raise answered.stray
            on_stray(answered.stray)
