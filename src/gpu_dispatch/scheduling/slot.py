"""A place for a worker, and what the scheduler knows about the one in it."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """
    WAITING ─► STARTING ─► READY ─► FINISHING ─► GONE
       ▲           │          │          │
       │           └───┬──────┴──────────┘
       │               ▼
       └─(back-off)─ DYING ─► RETIRED
    """

    WAITING = "waiting"  # for its turn to start, or for the end of a back-off
    STARTING = "starting"  # the process runs its imports and setup
    READY = "ready"
    FINISHING = "finishing"  # asked to clean up and exit
    DYING = "dying"  # a kill was asked for; the death has not been seen yet
    GONE = "gone"  # exited in good order, or is not needed any more
    RETIRED = "retired"  # out of service


class Slot:
    """Mutable on purpose: a slot is the scheduler's own notebook, nobody else sees it."""

    __slots__ = (
        "barren_at", "busy", "check_at", "deadline_at", "failures_in_a_row", "held", "kill_reason", "mean_s", "number",
        "overdue", "phase", "recalling", "said_at", "stalled_on", "starts", "was_ready",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        self.phase = Phase.WAITING
        self.held: dict[int, None] = {}  # tasks sent and not answered, oldest first
        self.mean_s: float | None = None  # moving mean of a task's duration
        self.said_at = 0.0  # when the worker last said something that shows progress
        self.check_at: float | None = None  # when to look at a quiet worker
        self.deadline_at: float | None = 0.0  # of the phase: back-off over, setup, cleanup or drain too long
        self.busy = False  # holds tasks; kept beside ``held`` so that the scheduler can count busy slots
        self.recalling = False  # a RecallTasks is on its way
        self.barren_at = -1.0  # ``said_at`` when it was last recalled: asking again before it made progress is no use
        self.stalled_on: int | None = None  # this task takes far longer than expected: send nothing behind it
        self.overdue: tuple[int, ...] = ()  # running past the limit; already told as timed out
        self.kill_reason: str | None = None
        self.failures_in_a_row = 0  # deaths and failed setups since the last finished task
        self.starts = 0
        self.was_ready = False

    @property
    def is_cleaning_up(self) -> bool:
        """It was asked to finish, and may have been killed because that took too long."""
        return self.phase is Phase.FINISHING or (self.phase is Phase.DYING and self.kill_reason == "cleanup")

    @property
    def in_service(self) -> bool:
        return self.phase not in (Phase.GONE, Phase.RETIRED)
