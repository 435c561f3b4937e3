"""A worker's life: started in its turn, made ready, finished or killed; its slot started again, or retired."""

from __future__ import annotations

from collections import deque

from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told
from gpu_dispatch.scheduling.feeding import Feeding
from gpu_dispatch.scheduling.head_start import HeadStart
from gpu_dispatch.scheduling.moving import Moving
from gpu_dispatch.scheduling.restarts import Restarts
from gpu_dispatch.scheduling.slot import NEVER, Kill, Phase, Slot
from gpu_dispatch.scheduling.state import State
from gpu_dispatch.scheduling.waiting import WaitingTasks
from gpu_dispatch.scheduling.window import Pace

EXIT_PATIENCE_S = 1.0
"""A process whose setup raised ends by itself, unless something of the user's keeps it."""
KILL_PATIENCE_S = 5.0
"""A process not dead this long after SIGKILL sits in uninterruptible sleep: go on without it."""


class Lifecycle:
    __slots__ = (
        "_feeding",
        "_head_start",
        "_moving",
        "_pace",
        "_restarts",
        "_state",
        "_to_restart",
        "_unborn",
        "_waiting",
    )

    def __init__(self, state: State, waiting: WaitingTasks, feeding: Feeding, moving: Moving, pace: Pace) -> None:
        self._state = state
        self._waiting = waiting
        self._feeding = feeding
        self._moving = moving
        self._pace = pace
        self._restarts = Restarts(state.settings.max_restarts)
        self._head_start = HeadStart(state.settings.cores)
        self._unborn: deque[Slot] = deque()  # those whose first start is to come
        self._to_restart: deque[Slot] = deque()
        devices = state.settings.devices
        for number in range(state.settings.slots):
            self._add(None if devices is None else devices[number])
        state.alarms.wake(0.0)

    # --- coming ----------------------------------------------------------------------------------------------

    def _add(self, device: int | None) -> Slot:
        state = self._state
        number = len(state.slots)
        slot = Slot(number, -1 - number if device is None else device)
        self._pace.begin(slot)
        state.slots.append(slot)
        state.in_service += 1
        self._unborn.append(slot)
        state.attention = True
        return slot

    def on_added(self, what: told.SlotAdded) -> None:
        slot = self._add(what.device)
        if self._state.closing:
            self.leave(slot, Phase.GONE)

    def start_next(self) -> None:
        """Start the workers whose turn has come, if there may be work for them."""
        state = self._state
        room = self._head_start.room(state.now)
        while self._may_start_another:
            unborn, to_restart = _still_waiting(self._unborn), _still_waiting(self._to_restart)
            if not to_restart and not (unborn and room):
                break
            if not self._has_work_for_another():
                state.attention = True  # look again after the next input
                return
            if unborn and room:
                room -= 1
                self._head_start.begin(unborn[0], state.now)
                self._start(unborn.popleft())
            else:
                self._start(to_restart.popleft())
        if self._unborn and not room:
            state.attention = True
            state.alarms.wake(self._head_start.next_at)

    def start_held_back(self) -> None:
        """The head start of others must not keep a worker from its setup and its cleanup, however short the run."""
        while self._may_start_another and _still_waiting(self._unborn):
            self._start(self._unborn.popleft())

    @property
    def _may_start_another(self) -> bool:
        state = self._state
        return state.starting < (state.settings.setup_concurrency or len(state.slots))

    def _has_work_for_another(self) -> bool:
        """At the end of a run, a slot whose worker died is not started to find that there is nothing left for it."""
        state, waiting = self._state, self._waiting
        if not state.input_ended or state.settings.speculate or waiting.elsewhere:
            return True
        return not self._feeding.idle_count and (waiting.count > 0 or self._moving.has_unstarted)

    def _start(self, slot: Slot) -> None:
        state = self._state
        state.starting += 1
        slot.phase = Phase.STARTING
        slot.starts += 1
        slot.killed_for = None
        slot.setup_text = None
        slot.hopeless = False
        slot.deadline_at = NEVER
        if state.settings.setup_timeout is not None:
            state.alarms.set_deadline(slot, state.now + state.settings.setup_timeout)
        state.out.append(do.StartWorker(slot.number))

    def on_ready(self, what: told.WorkerReady) -> None:
        slot = self._state.slots[what.slot]
        if slot.phase is Phase.STARTING:
            self._leave_setup(slot, Phase.READY)
            slot.was_ready = True
            slot.deadline_at = NEVER
            self._feeding.note_room(slot)

    def on_setup_raised(self, what: told.SetupRaised) -> None:
        """Its slot is not used again before the process is gone: a successor would meet it, and its GPU memory."""
        slot = self._state.slots[what.slot]
        if slot.phase is Phase.STARTING:
            self._leave_setup(slot, Phase.EXITING)
            slot.setup_text = what.text
            # A setup that raises on the very first start will raise again. One that has worked before deserves
            # patience: after a kill, the memory of the old process may not be free yet.
            slot.hopeless = what.fatal or not slot.was_ready
            self._state.alarms.set_deadline(slot, self._state.now + EXIT_PATIENCE_S)

    def _leave_setup(self, slot: Slot, phase: Phase) -> None:
        slot.phase = phase
        self._state.starting -= 1
        self._state.attention = True  # it is somebody else's turn

    # --- going -----------------------------------------------------------------------------------------------

    def on_removed(self, what: told.SlotRemoved) -> None:
        """Finished as soon as it holds nothing; never started again."""
        slot = self._state.slots[what.slot]
        if not slot.in_service or slot.leaving:
            return
        slot.leaving = True
        if slot.phase is Phase.WAITING:
            if self._may_leave(slot):
                self.leave(slot, Phase.GONE)
        elif slot.phase is Phase.READY:
            if slot.held.count > 1 or slot.told:
                self._moving.recall_unstarted(slot)
            self._feeding.note_room(slot)

    def _may_leave(self, slot: Slot) -> bool:
        """The last slot stays while there is work: tasks matter more than the wish to shrink."""
        state = self._state
        if state.closing or any(
            other.in_service and not other.leaving and other.phase is not Phase.FINISHING for other in state.slots
        ):
            return True
        slot.leaving = False
        return False

    def finish_dismissed(self) -> None:
        dismissed, self._feeding.dismissed = self._feeding.dismissed, []
        for slot in dismissed:
            if slot.phase is not Phase.READY or slot.held:
                continue
            if slot.lost_race:
                self.kill(slot, Kill.UNNEEDED, "another worker was faster, and the run is over")
            elif slot.told:
                continue
            elif self._may_leave(slot):
                self._finish(slot)
            else:
                self._feeding.note_room(slot)
                self._feeding.feed()

    def _finish(self, slot: Slot) -> None:
        state = self._state
        slot.phase = Phase.FINISHING
        slot.check_at = NEVER
        self._feeding.close(slot)
        until = state.now + state.settings.cleanup_timeout
        if state.stop is not None:
            until = min(until, max(state.stop.drain_until, state.now))
        state.alarms.set_deadline(slot, until)
        state.out.append(do.FinishWorker(slot.number))

    def kill(self, slot: Slot, why: Kill, text: str) -> None:
        state = self._state
        if slot.phase is Phase.STARTING:
            self._leave_setup(slot, Phase.DYING)
        slot.phase = Phase.DYING
        slot.killed_for = why
        slot.check_at = NEVER
        self._feeding.close(slot)
        state.alarms.set_deadline(slot, state.now + KILL_PATIENCE_S)
        state.out.append(do.KillWorker(slot.number, text))

    def on_deadline(self, slot: Slot) -> None:
        """The phase has lasted as long as it may. (For one that does not die: deaths.py.)"""
        state, phase = self._state, slot.phase
        slot.deadline_at = NEVER
        if phase is Phase.WAITING:
            self._to_restart.append(slot)
            state.attention = True
        elif phase is Phase.STARTING and state.closing:
            self.kill(slot, Kill.UNNEEDED, "the run is over")
        elif phase is Phase.STARTING:
            self.kill(slot, Kill.SETUP, f"its setup did not finish within {state.settings.setup_timeout:g} s")
        elif phase is Phase.EXITING:
            self.kill(slot, Kill.SETUP, "its setup failed, and it did not end by itself")
        elif phase is Phase.READY:
            self.kill(slot, Kill.DRAIN, "the drain deadline has passed")
        elif phase is Phase.FINISHING:
            self.kill(slot, Kill.CLEANUP, "its cleanup did not finish in time")

    # --- what becomes of its slot ------------------------------------------------------------------------------

    def restart_or_retire(self, slot: Slot, text: str, *, in_setup: bool, blameless: bool = False) -> None:
        state = self._state
        if state.closing or (slot.leaving and self._may_leave(slot)):
            self.leave(slot, Phase.GONE)
            if in_setup and state.stop is None and not slot.was_ready:  # nobody else would tell the user
                state.out.append(do.RetireSlot(slot.number, text, True))
        elif not blameless and self._restarts.give_up(slot):
            self.retire(slot, text, in_setup=in_setup)
        else:
            self._let_wait(slot, self._restarts.backoff_s(slot))

    def _let_wait(self, slot: Slot, backoff_s: float) -> None:
        slot.phase = Phase.WAITING
        if backoff_s > 0:
            self._state.alarms.set_deadline(slot, self._state.now + backoff_s)
        else:
            slot.deadline_at = NEVER
            self._to_restart.append(slot)
            self._state.attention = True

    def retire(self, slot: Slot, text: str, *, in_setup: bool) -> None:
        self._restarts.note_retired(slot, in_setup=in_setup)
        self._state.out.append(do.RetireSlot(slot.number, text, in_setup))
        self.leave(slot, Phase.RETIRED)

    def leave(self, slot: Slot, phase: Phase) -> None:
        slot.phase = phase
        slot.check_at = slot.deadline_at = NEVER
        self._feeding.close(slot)
        self._state.in_service -= 1
        self._state.attention = True


def _still_waiting(queue: deque[Slot]) -> deque[Slot]:
    while queue and queue[0].phase is not Phase.WAITING:
        queue.popleft()
    return queue
