"""What the modules of the scheduler share: plain facts, no decisions."""

from __future__ import annotations

from gpu_dispatch.scheduling.actions import Action
from gpu_dispatch.scheduling.alarms import Alarms
from gpu_dispatch.scheduling.inputs import StopAsked
from gpu_dispatch.scheduling.settings import SchedulerSettings
from gpu_dispatch.scheduling.slot import Slot


class State:
    __slots__ = (
        "alarms", "attention", "closing", "ended", "in_service", "input_ended", "now", "out", "settings", "slots",
        "starting", "stop", "unsettled",
    )  # fmt: skip

    def __init__(self, settings: SchedulerSettings) -> None:
        self.settings = settings
        self.slots: list[Slot] = []
        self.alarms = Alarms(self.slots)
        self.now = 0.0  # of the input that is being handled
        self.out: list[Action] = []  # what it leads to
        self.unsettled = 0
        self.in_service = 0
        self.starting = 0
        self.input_ended = False
        self.stop: StopAsked | None = None
        self.closing = False  # no task will be sent any more: stopped, or all settled and none to come
        self.ended = False
        self.attention = False  # something rare happened: look at what Scheduler._afterwards looks at
