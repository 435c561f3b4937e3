"""Every value that crosses a process or is told to the user about a task: one frozen dataclass each.

Outcomes (told to the user; ``stream()`` yields the first three):
    TaskSuccess  TaskError  TaskTimeout  TaskStarted  SetupFailed  CleanupFailed

Parent → worker:
    Boot         everything a worker needs to come to life; the first frame of every channel
    RunTasks     tasks to run; ``together`` seals them into one batch (bisection needs that)
    RecallTasks  give back tasks that have not begun, the youngest first, and flush finished results
    Finish       no more tasks will come: clean up and exit

Worker → parent:
    Ready        setup is done
    SetupFailed, CleanupFailed
    LargeResult  a finished task with large data; small ones come in frames of many (see transport/board.py)
    GivenBack    the answer to RecallTasks
    Finished     cleanup is done; the process is about to exit

Events (told to observers): ProgressEvent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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


# --- parent → worker ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RuntimePlan:
    """How the worker process runs tasks: everything that is not the user's class or its arguments."""

    announce_starts: bool = False
    """Somebody listens to starts: say them as they happen, not only with the results."""
    cpus: frozenset[int] | None = None
    batch_size: int | None = None
    """``None``: one task at a time, through ``process``."""
    batch_auto: bool = False
    """``batch_size`` is where to begin; find the best one."""
    batch_ceiling: int | None = None
    """With ``batch_auto``: a size known not to fit, from an earlier worker of the same class on the same device."""
    batch_wait_s: float = 0.0
    batch_by: bytes | None = None
    """Pickled (cost function, budget)."""
    is_oom: bytes | None = None
    """Pickled function of an exception."""
    io_threads: int = 4
    arena_bytes: int = 1 << 28
    """How much shared memory the results of this worker may use."""


@dataclass(frozen=True, slots=True)
class BatchSizeLearnt:
    """Worker → parent: what ``batch_auto`` has settled on, for the views and for the next worker."""

    size: int
    ceiling: int | None


@dataclass(frozen=True, slots=True)
class Boot:
    worker_id: int
    gpu_id: int | str
    device: str
    seed: int
    base_seed: int
    task_timeout: float | None
    sys_path: tuple[str, ...]
    argv: tuple[str, ...]
    main_path: str | None
    """The user's script, to be imported as ``__mp_main__`` before unpickling; ``None`` when nothing needs it."""
    main_name: str | None
    """The module's name when it was started with ``python -m``; ``None`` otherwise."""
    worker_cls: bytes
    setup_kwargs: bytes
    plan: RuntimePlan


@dataclass(frozen=True, slots=True)
class RunTasks:
    task_ids: tuple[int, ...] | range
    payload: tuple[str, Any]
    """As ``transport.codec.pack`` made it."""
    together: bool = False


@dataclass(frozen=True, slots=True)
class RecallTasks:
    count: int
    """How many at most; 0 asks only for a flush of finished results."""


@dataclass(frozen=True, slots=True)
class Finish:
    pass


# --- worker → parent ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ready:
    setup_s: float
    pid: int


@dataclass(frozen=True, slots=True)
class LargeResult:
    """One finished task whose value lies in the arena."""

    task_id: int
    busy_s: float
    packed: Any
    """A ``transport.codec.Large``."""


@dataclass(frozen=True, slots=True)
class GivenBack:
    task_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    pass


@dataclass(frozen=True, slots=True)
class Failure:
    """What stands in place of a result when a task failed inside the worker."""

    kind: str
    """``"error"``, ``"timeout"``, ``"transport"`` or ``"oom"``."""
    text: str
    type_names: tuple[str, ...] = ()
    """Qualified names along the exception's MRO, so that a RetryPolicy can match without unpickling."""
    exception: bytes | None = None
    """The exception itself, pickled, when that was possible."""
