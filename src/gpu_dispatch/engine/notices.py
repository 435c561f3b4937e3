"""What the loop tells the delivering thread. Each is delivered once, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_dispatch.errors import ErrorReport
from gpu_dispatch.light import dataclass
from gpu_dispatch.protocol import ProgressEvent

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any

    from gpu_dispatch.backends.contract import Opener


@dataclass(frozen=True, slots=True)
class Succeeded:
    slot: int
    worker_id: int
    task_ids: Sequence[int]
    values: list[Any]
    busy_s: Sequence[float]
    weight: int
    """Bytes held, as far as known: see loop.py on backpressure."""
    opener: Opener | None = None
    """If the values are yet to be opened: see portions.py."""
    attempts: Mapping[int, int] | None = None
    """Of those that had failed before: which attempt it was."""


@dataclass(frozen=True, slots=True)
class Failed:
    slot: int
    worker_id: int
    task_id: int
    word: str
    kind: str
    report: ErrorReport
    busy_s: float


@dataclass(frozen=True, slots=True)
class Started:
    worker_id: int
    task_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class SetupGivenUp:
    gpu_id: int | str
    text: str


@dataclass(frozen=True, slots=True)
class Happened:
    event: ProgressEvent


@dataclass(frozen=True, slots=True)
class Draining:
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The last notice."""

    error: BaseException | None


Notice = Succeeded | Failed | Started | SetupGivenUp | Happened | Draining | Ended
