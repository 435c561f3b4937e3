"""How a run ends: because all is done, because it was stopped, or because nobody is left to go on."""

from __future__ import annotations

from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told
from gpu_dispatch.scheduling.fates import Fates
from gpu_dispatch.scheduling.feeding import Feeding
from gpu_dispatch.scheduling.lifecycle import Lifecycle
from gpu_dispatch.scheduling.moving import Moving
from gpu_dispatch.scheduling.slot import Kill, Phase
from gpu_dispatch.scheduling.state import State
from gpu_dispatch.scheduling.waiting import WaitingTasks


class Ending:
    __slots__ = ("_fates", "_feeding", "_lifecycle", "_moving", "_state", "_waiting")

    def __init__(
        self,
        state: State,
        waiting: WaitingTasks,
        fates: Fates,
        feeding: Feeding,
        moving: Moving,
        lifecycle: Lifecycle,
    ) -> None:
        self._state = state
        self._waiting = waiting
        self._fates = fates
        self._feeding = feeding
        self._moving = moving
        self._lifecycle = lifecycle

    def on_input_ended(self, _: told.InputEnded) -> None:
        self._state.input_ended = True

    def on_stop(self, what: told.StopAsked) -> None:
        """Told again, it may only come sooner."""
        state = self._state
        if state.stop is not None:
            what = told.StopAsked(min(what.drain_until, state.stop.drain_until), state.stop.reason)
        state.stop = what
        state.input_ended = True
        state.closing = True
        self._fates.cancel(self._waiting.take_all())
        for slot in state.slots:
            if slot.phase is Phase.WAITING:
                self._lifecycle.leave(slot, Phase.GONE)
            elif slot.phase in (Phase.STARTING, Phase.EXITING):
                self._lifecycle.kill(slot, Kill.UNNEEDED, "the run was stopped")
            elif slot.phase is Phase.READY:
                state.alarms.set_deadline(slot, what.drain_until)
                if slot.held.count > 1:
                    self._moving.recall_unstarted(slot)
                self._feeding.note_room(slot)
            elif slot.phase is Phase.FINISHING:
                state.alarms.set_deadline(slot, min(slot.deadline_at, what.drain_until))

    def wind_down(self) -> None:
        """All tasks are settled and none will come: let the workers clean up."""
        state = self._state
        self._lifecycle.start_held_back()
        state.closing = True
        for slot in state.slots:
            if slot.phase is Phase.READY:
                self._feeding.note_room(slot)
            elif slot.phase is Phase.STARTING:
                # Its cleanup is owed once its setup is done, but the run does not wait for a long one.
                state.alarms.set_deadline(slot, min(slot.deadline_at, state.now + state.settings.cleanup_timeout))
            elif slot.phase is Phase.WAITING:
                self._lifecycle.leave(slot, Phase.GONE)

    def end(self) -> None:
        """No slot is in service."""
        state = self._state
        no_worker_left = state.stop is None and (state.unsettled > 0 or not state.input_ended)
        self._fates.lose_all_waiting()  # tell each task so, rather than wait for ever
        state.input_ended = True
        state.closing = True
        state.ended = True
        state.out.append(do.EndRun(no_worker_left))
