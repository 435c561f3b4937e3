"""From a settled failure to what the user's callback gets."""

from __future__ import annotations

from gpu_dispatch.errors import ErrorReport
from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.wire import Failure


def report_of(action: do.SettleFailure, failure: Failure | None, worker_id: int) -> ErrorReport:
    """``failure`` is what the worker said, if it is the worker's word that settles the task."""
    text = action.text
    if action.kind == "crash":
        text = f"{text}\nIt was running task {action.task_id} (attempt {action.attempt})."
    return ErrorReport(
        text,
        kind=action.kind,
        attempt=action.attempt,
        exception=_opened_exception(failure),
        details={"task_id": action.task_id, "worker_id": worker_id, "attempt": action.attempt},
    )


def report_of_unopened(task_id: int, text: str, worker_id: int, attempt: int) -> ErrorReport:
    """Of a task that succeeded, but whose result does not open."""
    details = {"task_id": task_id, "worker_id": worker_id, "attempt": attempt}
    return ErrorReport(text, kind="transport", attempt=attempt, details=details)


def _opened_exception(failure: Failure | None) -> BaseException | None:
    if failure is None or failure.exception is None:
        return None
    import pickle  # here: only failures need it

    try:
        opened = pickle.loads(failure.exception)
    except BaseException:
        return None
    return opened if isinstance(opened, BaseException) else None
