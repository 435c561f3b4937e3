"""What is told to the user about tasks and workers: one frozen dataclass each.

Outcomes (``stream()`` yields the first three):
    TaskSuccess  TaskError  TaskTimeout  TaskStarted  SetupFailed  CleanupFailed

Events (``on_progress`` gets them): ProgressEvent.

Not here: the messages between parent and worker (wire.py).
"""

from __future__ import annotations

from gpu_dispatch.light import dataclass

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any
else:
    Any = object  # for those who ask for the types of fields at run time

# --- outcomes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskSuccess:
    task_id: int
    data: Any
    worker_id: int


@dataclass(frozen=True, slots=True)
class TaskError:
    task_id: int
    error: str
    """A traceback, or the cause of the crash; an ``ErrorReport`` with fields when it comes from a run."""
    worker_id: int


@dataclass(frozen=True, slots=True)
class TaskTimeout:
    task_id: int
    timeout: float
    worker_id: int


@dataclass(frozen=True, slots=True)
class TaskStarted:
    task_id: int
    worker_id: int


@dataclass(frozen=True, slots=True)
class SetupFailed:
    gpu_id: int
    error: str


@dataclass(frozen=True, slots=True)
class CleanupFailed:
    gpu_id: int
    error: str


Outcome = TaskSuccess | TaskError | TaskTimeout


# --- events ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """One step in the life of a task or of a worker, as ``on_progress`` gets it.

    Instants are seconds on the monotonic clock (``time.monotonic()``); unknown ones are ``None``.
    """

    kind: str
    """Of a task: ``queued sent started finished retried``. Of a worker: ``worker_starting worker_ready
    worker_setup_failed worker_died worker_retired worker_finished``."""
    at: float
    task_id: int | None = None
    worker_id: int | None = None
    device: str | None = None
    attempt: int = 1
    outcome: str | None = None
    """With ``finished``: ``success error timeout cancelled``."""
    queued_at: float | None = None
    sent_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    duration_s: float | None = None
    """Time inside user code; with ``worker_ready``: time the setup took."""
    detail: str | None = None
