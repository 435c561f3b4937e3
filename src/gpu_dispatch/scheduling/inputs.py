"""Facts that are told to the scheduler. Participles, because they have happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_dispatch.light import dataclass


@dataclass(frozen=True, slots=True)
class TasksSubmitted:
    task_ids: Sequence[int]
    costs: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class InputEnded:
    """No further task will be submitted: the generator is exhausted, or nobody wants more of it."""


@dataclass(frozen=True, slots=True)
class WorkerReady:
    slot: int


@dataclass(frozen=True, slots=True)
class SetupRaised:
    """``setup`` raised, or the worker could not be brought to the point of calling it."""

    slot: int
    text: str
    fatal: bool = False
    """It will fail in every other process as well, so trying again is no use."""


@dataclass(frozen=True, slots=True)
class TasksWeighed:
    """How large the tasks were that were just sent. Told only when they are large."""

    count: int
    size: int
    """Bytes, together."""


@dataclass(frozen=True, slots=True)
class TasksSucceeded:
    slot: int
    task_ids: Sequence[int]
    busy_s: float
    """Time spent in user code for these tasks together."""


@dataclass(frozen=True, slots=True)
class TaskFailed:
    slot: int
    task_id: int
    kind: str
    """``error``, ``timeout``, ``transport`` (it will fail again: never retried) or ``poisoned`` (the worker's GPU
    context is broken: replace the worker, try the task once elsewhere)."""
    text: str
    type_names: tuple[str, ...] = ()
    busy_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BatchSizeLearnt:
    """A worker has so many tasks in hand at once from now on."""

    slot: int
    size: int


@dataclass(frozen=True, slots=True)
class TasksGivenBack:
    """The answer to RecallTasks; may be empty."""

    slot: int
    task_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class WorkerPeeked:
    """The answer to PeekWorker: what the worker notes as running, or did when it was last given the processor."""

    slot: int
    running: Mapping[int, float]
    """Task → since when. ``inf``: it is done with it, and waits for the parent to read the result."""
    unread: bool = False
    """The parent does not read what workers say at present: their silence means nothing."""


@dataclass(frozen=True, slots=True)
class WorkerDied:
    slot: int
    cause: str
    """Exit code or signal, pid, last words: everything a user needs to see."""
    suspects: tuple[int, ...]
    """The tasks that were running: one, or a batch, or none when the worker was idle."""


@dataclass(frozen=True, slots=True)
class WorkerFinished:
    """A worker that was asked to finish has cleaned up and exited."""

    slot: int


@dataclass(frozen=True, slots=True)
class SlotAdded:
    """There is room for one more worker: it gets the next number, and is started."""

    device: int | None = None
    """As in SchedulerSettings.devices; ``None``: one of its own."""


@dataclass(frozen=True, slots=True)
class SlotRemoved:
    """This slot's worker is to finish as soon as it holds nothing; what it has not begun is taken back before.

    That is no failure. The last slot stays while there is work.
    """

    slot: int


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Cancel what has not begun; what runs may finish until ``drain_until``, then its workers are killed."""

    drain_until: float
    reason: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing happened, but ``wake_at`` has come."""


Input = (
    TasksSubmitted
    | InputEnded
    | WorkerReady
    | SetupRaised
    | TasksWeighed
    | TasksSucceeded
    | TaskFailed
    | BatchSizeLearnt
    | TasksGivenBack
    | WorkerPeeked
    | WorkerDied
    | WorkerFinished
    | SlotAdded
    | SlotRemoved
    | StopAsked
    | TimePassed
)
