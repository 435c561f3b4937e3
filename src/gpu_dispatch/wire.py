"""Every message between parent and worker, one frozen slotted dataclass each.

Parent → worker:
    Boot         everything a worker needs to come to life; the first frame of every channel
    RunTasks     tasks to run; ``together`` seals them into one batch (bisection needs that)
    RecallTasks  give back the youngest tasks that have not begun, and flush finished results
    Finish       no more tasks will come: clean up and exit

Worker → parent:
    Ready        setup is done                     SetupRaised, CleanupRaised
    TaskBegan    sent only while somebody listens
    GivenBack    the answer to RecallTasks
    Finished     cleanup is done; the process is about to exit
    BatchSizeLearnt
Finished tasks come in frames of many: see transport/board.py.
"""

from __future__ import annotations

from gpu_dispatch.light import dataclass

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from typing import Any

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
    at_once: int
    """How many tasks the worker has in hand at once: the size it tries now, and what its I/O threads prepare."""


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
class SetupRaised:
    text: str


@dataclass(frozen=True, slots=True)
class CleanupRaised:
    text: str


@dataclass(frozen=True, slots=True)
class TaskBegan:
    """Before user code runs; sent only while somebody listens."""

    task_id: int


@dataclass(frozen=True, slots=True)
class Ready:
    setup_s: float
    pid: int


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
