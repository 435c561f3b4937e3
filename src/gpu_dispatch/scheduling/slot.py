"""A place for a worker, and what the scheduler knows about the one in it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import inf

from gpu_dispatch.scheduling.held import Held

NEVER = inf
"""The instant of something that is not going to happen."""


class Phase(Enum):
    """
    WAITING ─► STARTING ─► READY ─► FINISHING ─► GONE
       ▲          │ │        │          │
       │          │ └────────┼──────────┤
       │          ▼          ▼          │
       │       EXITING ─► DYING ◄───────┘
       └──(back-off)──────┴──► RETIRED
    """

    WAITING = "waiting"  # for its turn to start, or for the end of a back-off
    STARTING = "starting"  # the process runs its imports and setup
    READY = "ready"
    EXITING = "exiting"  # its setup raised; the process is about to end by itself
    FINISHING = "finishing"  # asked to clean up and exit
    DYING = "dying"  # a kill was asked for; the death has not been seen yet
    GONE = "gone"  # exited in good order, or is not needed any more
    RETIRED = "retired"  # out of service


class Kill(Enum):
    """Why we killed a worker: its tasks are charged, moved or cancelled accordingly."""

    SETUP = "setup"  # it took too long
    TIMEOUT = "timeout"  # its task did
    UNRESPONSIVE = "unresponsive"  # it holds tasks and starts none
    POISONED = "poisoned"  # its GPU context is broken
    DRAIN = "drain"  # a stopped run waits no longer
    CLEANUP = "cleanup"  # it took too long
    UNNEEDED = "unneeded"  # the run is over


class Room(Enum):
    """Whether a slot can be given tasks."""

    NONE = 0
    HUNGRY = 1  # it holds tasks, and has room for another frame
    IDLE = 2  # it holds nothing


class Slot:
    """Mutable on purpose: a slot is the scheduler's own notebook, nobody else writes in it."""

    __slots__ = (
        "alarm_at", "barren", "batch_size", "check_at", "deadline_at", "device", "doubted", "failures_in_a_row",
        "frozen", "group", "held", "hopeless", "in_hungry", "in_idle", "in_loaded", "killed_for", "leaving",
        "lost_race", "mean_s", "number", "phase", "picky", "quiet_s", "recalled", "recalled_for_idle", "room",
        "said_at", "setup_text", "stalled_on", "starts", "still_since", "told", "usual_s", "was_ready", "window",
    )  # fmt: skip

    def __init__(self, number: int, device: int) -> None:
        self.number = number
        self.device = device
        self.phase = Phase.WAITING
        self.starts = 0
        self.was_ready = False
        self.failures_in_a_row = 0  # deaths and failed setups since the last finished task
        self.leaving = False  # SlotRemoved: to be finished as soon as it holds nothing
        self.killed_for: Kill | None = None
        self.setup_text: str | None = None  # what its setup raised
        self.hopeless = False  # ... and that another process would raise it again

        self.held = Held()
        self.told: tuple[int, ...] = ()  # still running in the worker, but settled: past the limit, or a lost race
        self.lost_race = False  # ``told`` holds the slower copy of a task: there is no use in waiting for it
        self.group: frozenset[int] | None = None  # suspects that were sent to be run together
        self.picky = False  # holds tasks that must not go back to where they came from: nothing is moved from here

        self.room = Room.NONE
        self.in_idle = self.in_hungry = self.in_loaded = False  # has an entry in that queue, valid or not
        self.batch_size = 0  # how many tasks its worker has in hand at once
        self.window = 0  # how many tasks it may hold, by its own durations
        self.mean_s: float | None = None  # moving mean of a task's duration
        self.usual_s: float | None = None  # the same, but stragglers weigh less, however long they take
        self.recalled: int | None = None  # a RecallTasks for so many is on its way
        self.recalled_for_idle = False
        self.barren = False  # it gave back less than was asked: asking again before something changes is no use
        self.stalled_on: int | None = None  # this task takes far longer than expected: send nothing behind it

        self.said_at = 0.0  # when the worker last said something that shows progress
        self.doubted: int | None = None  # past the limit, beside others: the worker was asked whether it still answers
        self.frozen = False  # it did not: any of those that ran may be to blame
        self.still_since = NEVER  # since when it has been seen with tasks and none of them running
        self.quiet_s = 0.0  # how long it may be quiet before it is looked at
        self.check_at = NEVER  # when to look at a quiet worker
        self.deadline_at = NEVER  # of the phase: back-off over, or setup, exit, cleanup, drain or death too long
        self.alarm_at = NEVER  # the earliest entry in Alarms

    def forget_told(self, tasks: Sequence[int]) -> None:
        """The worker is done with these, which were settled before."""
        if self.told:
            self.told = tuple(task for task in self.told if task not in tasks)
            self.lost_race = self.lost_race and bool(self.told)

    @property
    def is_cleaning_up(self) -> bool:
        """It was asked to finish, and may have been killed because that took too long."""
        return self.phase is Phase.FINISHING or (self.phase is Phase.DYING and self.killed_for is Kill.CLEANUP)

    @property
    def in_service(self) -> bool:
        return self.phase is not Phase.GONE and self.phase is not Phase.RETIRED
