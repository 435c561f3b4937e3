"""What the scheduler asks for. Imperatives, because somebody else performs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_dispatch.light import dataclass


@dataclass(frozen=True, slots=True)
class StartWorker:
    slot: int


@dataclass(slots=True)  # frozen in spirit: freezing would double the price of the two actions that every frame makes
class SendTasks:
    slot: int
    task_ids: Sequence[int]
    together: bool = False
    """Run these as one batch and no other with them: a bisection is going on."""


@dataclass(frozen=True, slots=True)
class RecallTasks:
    slot: int
    count: int


@dataclass(frozen=True, slots=True)
class PeekWorker:
    """Answer with WorkerPeeked at once."""

    slot: int


@dataclass(frozen=True, slots=True)
class KillWorker:
    slot: int
    reason: str
    grace_s: float = 0.0
    """How long it may still have after SIGTERM. 0: SIGKILL at once, it has had its warnings."""


@dataclass(frozen=True, slots=True)
class FinishWorker:
    slot: int


@dataclass(frozen=True, slots=True)
class RetireSlot:
    """This slot will not start again. ``text`` says why; ``in_setup`` whether it never got past its setup."""

    slot: int
    text: str
    in_setup: bool


@dataclass(slots=True)  # like SendTasks
class SettleSuccess:
    slot: int
    task_ids: Sequence[int]
    attempts: Mapping[int, int] | None = None
    """Of those that had failed before: which attempt it was."""


@dataclass(frozen=True, slots=True)
class SettleFailure:
    slot: int
    """-1 when no worker had it."""
    task_id: int
    word: str
    """``error``, ``timeout`` or ``cancelled``."""
    kind: str
    """Finer than the word: ``error crash timeout transport poisoned lost cancelled``."""
    text: str
    attempt: int


@dataclass(frozen=True, slots=True)
class RetryTask:
    """Told so that observers hear of it; the scheduler sends the task again by itself."""

    slot: int
    task_id: int
    attempt: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class EndRun:
    """Every task is settled and every worker gone. The last action of a run."""

    no_worker_left: bool
    """The run ended because all slots were retired, not because the work was done."""


Action = (
    StartWorker
    | SendTasks
    | RecallTasks
    | PeekWorker
    | KillWorker
    | FinishWorker
    | RetireSlot
    | SettleSuccess
    | SettleFailure
    | RetryTask
    | EndRun
)
