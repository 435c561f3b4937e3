"""The scheduler: one door, inputs in, actions out.

    TasksSubmitted ──► waiting ◄───── fates ◄──┬── answers              success, failure
                          │                    ├── deaths ◄─ lifecycle  start, ready, kill, restart, retirement
                          ▼                    ├── watching             stalls, time limits
                       feeding ──► slots ──────┴── moving, copies       recalls, second copies

Rules for the editor
- Every unsettled task is in exactly one place: waiting, or held by one slot (by two, if copied: see copies.py). A task
  leaves a slot only when its worker answered for it, gave it back, or is dead.
- Whoever is told of an outcome is told once: settling takes the task out of its place.
- Nothing that happens per task or per answer may cost more when there are more slots, or more tasks.
- ``wake_at`` may be too early, never too late.
"""

from __future__ import annotations

from collections.abc import Callable

from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told
from gpu_dispatch.scheduling.answers import Answers
from gpu_dispatch.scheduling.copies import Copies
from gpu_dispatch.scheduling.deaths import Deaths
from gpu_dispatch.scheduling.ending import Ending
from gpu_dispatch.scheduling.fates import Fates
from gpu_dispatch.scheduling.feeding import Feeding
from gpu_dispatch.scheduling.history import Histories
from gpu_dispatch.scheduling.lifecycle import Lifecycle
from gpu_dispatch.scheduling.moving import Moving
from gpu_dispatch.scheduling.settings import SchedulerSettings
from gpu_dispatch.scheduling.slot import NEVER, Slot
from gpu_dispatch.scheduling.state import State
from gpu_dispatch.scheduling.waiting import WaitingTasks
from gpu_dispatch.scheduling.watching import WORD_SLACK_S, Watching
from gpu_dispatch.scheduling.window import Pace

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any


class Scheduler:
    def __init__(self, settings: SchedulerSettings) -> None:
        self.settings = settings
        self._state = state = State(settings)
        self._histories = histories = Histories(settings.retry, settings.max_crashes)
        self._waiting = waiting = WaitingTasks()
        timeout_s = settings.task_timeout
        pace = Pace(settings.batch_size, NEVER if timeout_s is None else timeout_s + WORD_SLACK_S)
        self._fates = fates = Fates(state, waiting, histories)
        self._feeding = feeding = Feeding(state, waiting)
        self._copies = copies = Copies(state, waiting, feeding)
        self._moving = moving = Moving(state, fates, feeding, copies)
        self._lifecycle = lifecycle = Lifecycle(state, waiting, feeding, moving, pace)
        deaths = Deaths(state, fates, copies, moving, lifecycle)
        self._ending = ending = Ending(state, waiting, fates, feeding, moving, lifecycle)
        watching = Watching(state, histories, fates, feeding, copies, moving, lifecycle, deaths)
        answers = Answers(state, histories, fates, feeding, copies, lifecycle, pace)
        self._doors: dict[type, Callable[[Any], None]] = {
            told.TasksSubmitted: self._on_submitted,
            told.InputEnded: ending.on_input_ended,
            told.WorkerReady: lifecycle.on_ready,
            told.SetupRaised: lifecycle.on_setup_raised,
            told.TasksWeighed: feeding.on_weighed,
            told.TasksSucceeded: answers.on_succeeded,
            told.TaskFailed: answers.on_failed,
            told.BatchSizeLearnt: answers.on_batch_size_learnt,
            told.TasksGivenBack: moving.on_given_back,
            told.WorkerPeeked: watching.on_peeked,
            told.WorkerDied: deaths.on_died,
            told.WorkerFinished: deaths.on_finished,
            told.SlotAdded: lifecycle.on_added,
            told.SlotRemoved: lifecycle.on_removed,
            told.StopAsked: ending.on_stop,
            told.TimePassed: watching.on_time,
        }

    def handle(self, what: told.Input, now: float) -> list[do.Action]:
        """Tell the scheduler a fact; get back what is to be done about it, in order. Hot."""
        state, feeding = self._state, self._feeding
        state.now = now
        out: list[do.Action] = []
        state.out = out
        self._doors[type(what)](what)
        if feeding.idle_count or feeding.hungry_count:
            feeding.feed()
            if feeding.idle_count:
                self._moving.recall_for_idle()
                self._copies.speculate()
        if state.attention or (state.input_ended and not state.unsettled):
            self._afterwards()
        return out

    def _afterwards(self) -> None:
        """What need not be looked at after every input."""
        state, lifecycle = self._state, self._lifecycle
        state.attention = False
        if state.input_ended and not state.unsettled and not state.closing:
            self._ending.wind_down()
        lifecycle.finish_dismissed()
        if not state.closing:
            lifecycle.start_next()
        if not state.in_service and not state.ended:
            self._ending.end()

    def _on_submitted(self, what: told.TasksSubmitted) -> None:
        state = self._state
        state.unsettled += len(what.task_ids)
        if state.closing or not state.in_service:
            self._fates.cancel(what.task_ids)
        else:
            self._waiting.pending.add(what.task_ids, what.costs)

    # --- for the engine --------------------------------------------------------------------------------------

    @property
    def wake_at(self) -> float | None:
        """When to tell TimePassed at the latest, if nothing else happens before."""
        if self._state.ended:
            return None
        at = self._state.alarms.next_at
        delayed_until = self._waiting.delayed_until
        if delayed_until is not None and delayed_until < at:
            at = delayed_until
        return None if at == NEVER else at

    @property
    def slots(self) -> list[Slot]:
        return self._state.slots

    @property
    def queue_depth(self) -> int:
        """Tasks that wait for a slot."""
        return self._waiting.count

    @property
    def in_flight(self) -> int:
        """Tasks in slots. (Never negative, also for a thread that asks in the middle of a change.)"""
        return max(0, self._state.unsettled - self._waiting.count)

    @property
    def unsettled(self) -> int:
        return self._state.unsettled

    @property
    def wants_tasks(self) -> bool:
        """Whether a slot could take a task at once."""
        return self._feeding.idle_count + self._feeding.hungry_count > 0

    @property
    def ended(self) -> bool:
        return self._state.ended

    def attempt(self, task_id: int) -> int:
        return self._histories.attempt(task_id)

    # --- for tests -------------------------------------------------------------------------------------------

    def places(self) -> dict[int, list[str]]:
        """Where each unsettled task is. Every list must have exactly one element."""
        found: dict[int, list[str]] = {}
        for task, place in self._waiting.places():
            found.setdefault(task, []).append(place)
        copies = self.copies()
        for slot in self._state.slots:
            for task in slot.held:
                if copies.get(task) != slot.number:
                    found.setdefault(task, []).append(f"slot {slot.number}")
        return found

    def copies(self) -> dict[int, int]:
        """In which slot the second copy of a task is, for those that have one."""
        return {task: copy.number for task, (_, copy) in self._copies.pairs.items()}
