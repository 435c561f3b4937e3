"""Every exception of this package.

    GPUDispatchError
    ├── UsageError (also ValueError)      you misused it: an argument is wrong; nothing was started
    │   ├── WorkerClassError (TypeError)  the worker class cannot be used, or cannot travel
    │   ├── DeviceSpecError               a device was named that cannot be understood or is not there
    │   └── MainGuardError (RuntimeError) the script starts workers at import, without a __main__ guard
    ├── RunInProgress (RuntimeError)      a second run() on a dispatcher that is running
    ├── AllWorkersFailed (RuntimeError)   the world broke: no worker is left to run anything
    ├── CallbackFailed                    never raised: the note that is attached to your callback's exception
    └── InternalError (RuntimeError)      we have a bug: please report it, with the story it carries

    SoftTimeout (TimeoutError)            raised inside ``process`` when the task's time is up
    Terminated (SystemExit, KeyboardInterrupt)  run() was ended by SIGTERM: exit status 143 if nobody catches it

    ErrorReport (str)                     not an exception: what ``on_error`` gets, a text with fields

Task failures are not raised: they are *told*, through ``on_error`` and ``on_timeout``.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from typing import Any


class GPUDispatchError(Exception):
    """Base of everything this package raises on its own account."""


class UsageError(GPUDispatchError, ValueError):
    """An argument is wrong. Raised before any process starts."""


class WorkerClassError(UsageError, TypeError):
    """The worker class is not a usable BaseWorker, or cannot be sent to a worker process."""


class DeviceSpecError(UsageError):
    """``gpu_ids`` cannot be understood, or names a device that is not there."""


class MainGuardError(UsageError, RuntimeError):
    """The main script starts a run while it is being imported by a worker."""


class RunInProgress(GPUDispatchError, RuntimeError):
    """``run()`` was called on a dispatcher whose previous run has not ended."""


class AllWorkersFailed(GPUDispatchError, RuntimeError):
    """No worker is left. ``failures`` holds (worker_id, text) of each."""

    def __init__(self, message: str, failures: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message, failures)
        self.message = message
        self.failures = failures

    def __str__(self) -> str:
        return self.message


class InternalError(GPUDispatchError, RuntimeError):
    """A bug in gpu_dispatch."""


class SoftTimeout(TimeoutError):
    """Raised in user code when ``task_timeout`` has passed; the worker lives on."""


class Terminated(SystemExit, KeyboardInterrupt):
    """SIGTERM ended the run, in good order.

    ``except KeyboardInterrupt`` catches it like Ctrl-C; uncaught it ends the script with status 143, which is
    what Slurm and container runtimes expect of a process that obeyed a SIGTERM.
    """

    def __init__(self, code: int = 143) -> None:
        super().__init__(code)


class ErrorReport(str):
    """Why a task failed: the text (usually a traceback) with what is known about it as fields.

    It *is* a string, as the callbacks' signature promises; the fields spare the user from parsing it.
    """

    kind: str
    """``"error"`` (user code raised), ``"crash"`` (the worker died), ``"timeout"``, ``"transport"`` (would not
    pickle or unpickle), ``"oom"``, ``"poisoned"`` (the GPU's context broke), ``"lost"`` (no worker was left) or
    ``"cancelled"``."""
    attempt: int
    exception: BaseException | None
    details: dict[str, Any]

    def __new__(
        cls,
        text: str,
        *,
        kind: str = "error",
        attempt: int = 1,
        exception: BaseException | None = None,
        details: dict[str, Any] | None = None,
    ) -> ErrorReport:
        self = super().__new__(cls, text)
        self.kind = kind
        self.attempt = attempt
        self.exception = exception
        self.details = details or {}
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # The exception object is left behind: it may not pickle, and the text says the same.
        return (_rebuild_report, (str(self), self.kind, self.attempt, self.details))


def _rebuild_report(text: str, kind: str, attempt: int, details: dict[str, Any]) -> ErrorReport:
    return ErrorReport(text, kind=kind, attempt=attempt, details=details)
