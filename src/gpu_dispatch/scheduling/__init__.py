"""Pure decisions: which task goes where, what a death costs, when to give up.

    inputs ──► Scheduler.handle(input, now) ──► actions

No clock, thread, process, file, random number or log in this room: the same inputs at the same instants give the
same actions. That is what lets the tests simulate a day of a thousand workers in seconds.

Not here: performing the actions (engine/), payloads and results (the scheduler knows tasks by number only).
"""

from gpu_dispatch.scheduling.scheduler import Scheduler
from gpu_dispatch.scheduling.settings import SchedulerSettings

__all__ = ["Scheduler", "SchedulerSettings"]
