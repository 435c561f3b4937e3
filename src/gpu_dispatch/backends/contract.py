"""What the engine asks of a backend, and what it is told by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_dispatch.light import dataclass
from gpu_dispatch.wire import BatchSizeLearnt, Boot, CleanupRaised, Failure, GivenBack, Ready, SetupRaised, TaskBegan

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    Opener = Callable[[list[int], list[Any], list[float], int], "TasksAnswered"]
    """Task ids, values, busy seconds and size: each value opened, or made the failure of its task."""
else:
    Protocol = object


@dataclass(frozen=True, slots=True)
class TasksAnswered:
    """Finished tasks. Successes as parallel lists: they are many, and handled in bulk."""

    task_ids: list[int]
    values: list[Any]
    busy_s: list[float]
    failures: list[tuple[int, float, Failure]]
    size: int = 0
    """Bytes that crossed for these."""
    opener: Opener | None = None
    """The values are as they came, and this opens some: whoever hands them over does. It may run user code, for which
    the engine's loop must not wait; and what one thread makes, hands over and drops stays in the cache of one core."""
    stray: BaseException | None = None
    """What came up while they were opened, and was none of theirs: raised by a signal handler, perhaps."""


@dataclass(frozen=True, slots=True)
class ItemRefused:
    """An item could not be sent: it does not pickle."""

    task_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of tasks that were to be sent."""

    refused: Sequence[ItemRefused] = ()
    size: int = 0
    """Bytes of those that are on their way."""


@dataclass(frozen=True, slots=True)
class CannotStart:
    """No worker will ever run in this slot: its device is gone."""

    text: str


@dataclass(frozen=True, slots=True)
class Died:
    """The process is gone. Everything it managed to say was told before this."""

    cause: str
    suspects: tuple[int, ...]
    in_good_order: bool
    """It had said that it is finished."""


Said = (
    TasksAnswered
    | ItemRefused
    | CannotStart
    | Died
    | Ready
    | SetupRaised
    | CleanupRaised
    | GivenBack
    | TaskBegan
    | BatchSizeLearnt
)


class Backend(Protocol):
    """Used by one thread, the engine's loop, except where said otherwise."""

    def start(self, slot: int, boot: Boot) -> None: ...

    def send_tasks(self, slot: int, task_ids: Sequence[int], items: Sequence[Any], *, together: bool) -> Sent: ...

    def recall_tasks(self, slot: int, count: int) -> None: ...

    def finish(self, slot: int) -> None: ...

    def kill(self, slot: int, reason: str, grace_s: float) -> None: ...

    def running(self, slot: int) -> tuple[tuple[int, ...], float | None]:
        """(ids of the tasks that have been running longest, since when). From any thread."""

    def running_since(self, slot: int) -> Mapping[int, float]:
        """All that run, each with the instant it began: ``inf`` if its time does not count at present."""

    def memory(self, slots: Sequence[int]) -> tuple[int, int, int | None] | None:
        """(used, total, held by the workers of these slots) of the device they share; ``None`` when nobody tells."""

    def wait(self, timeout_s: float | None, *, read_results: bool) -> list[tuple[int, Said]]:
        """Until somebody says something, ``wake`` is called, or the time is up. Without ``read_results``, live
        workers are left to block on their writes: the callbacks are behind."""

    def wake(self) -> None:
        """End the wait that is going on, or the next one. From any thread."""

    def pid(self, slot: int) -> int | None: ...

    def close(self) -> None:
        """Kill what is left, release everything. Idempotent."""
