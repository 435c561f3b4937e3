"""What workers say about their tasks."""

from __future__ import annotations

from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told
from gpu_dispatch.scheduling.copies import Copies
from gpu_dispatch.scheduling.fates import Fates
from gpu_dispatch.scheduling.feeding import Feeding
from gpu_dispatch.scheduling.history import Histories
from gpu_dispatch.scheduling.lifecycle import Lifecycle
from gpu_dispatch.scheduling.slot import NEVER, Kill, Phase, Slot
from gpu_dispatch.scheduling.state import State
from gpu_dispatch.scheduling.window import Pace


class Answers:
    __slots__ = ("_copies", "_fates", "_feeding", "_histories", "_keeps_checks", "_lifecycle", "_pace", "_state")

    def __init__(
        self,
        state: State,
        histories: Histories,
        fates: Fates,
        feeding: Feeding,
        copies: Copies,
        lifecycle: Lifecycle,
        pace: Pace,
    ) -> None:
        self._state = state
        self._histories = histories
        self._fates = fates
        self._feeding = feeding
        self._copies = copies
        self._lifecycle = lifecycle
        self._pace = pace
        # Where tasks run beside each other, a limit must be looked after although others end all the time.
        self._keeps_checks = state.settings.overlaps and state.settings.task_timeout is not None

    def on_batch_size_learnt(self, what: told.BatchSizeLearnt) -> None:
        slot = self._state.slots[what.slot]
        self._pace.resize(slot, what.size)
        self._feeding.note_room(slot)

    def on_succeeded(self, what: told.TasksSucceeded) -> None:
        """Hot."""
        state, slot = self._state, self._state.slots[what.slot]
        accepted = slot.held.remove(what.task_ids)
        if len(accepted) < len(what.task_ids):
            slot.forget_told(what.task_ids)
        if accepted:
            state.unsettled -= len(accepted)
            attempts = self._histories.close(accepted) if self._histories.by_task else None
            if self._copies.pairs:
                self._copies.settle(slot, accepted)
            state.out.append(do.SettleSuccess(slot.number, accepted, attempts))
            slot.failures_in_a_row = 0
            self._pace.measure(slot, what.busy_s / len(what.task_ids))
        self._note_progress(slot)

    def on_failed(self, what: told.TaskFailed) -> None:
        slot, task = self._state.slots[what.slot], (what.task_id,)
        if not slot.held.remove(task):
            slot.forget_told(task)
        elif self._copies.drop(slot, task):
            self._fates.judge(slot, task, what.kind, what.text, killed_worker=False, type_names=what.type_names)
        if what.kind == "error":
            self._pace.measure(slot, what.busy_s)
        if what.kind == "error" or what.kind == "timeout":
            slot.failures_in_a_row = 0  # the worker is well
        if what.kind == "poisoned" and slot.phase is Phase.READY:
            self._lifecycle.kill(slot, Kill.POISONED, f"its GPU context is broken: {what.text[-200:]}")
        self._note_progress(slot)

    def _note_progress(self, slot: Slot) -> None:
        state, held = self._state, slot.held
        slot.said_at, slot.still_since, slot.barren = state.now, NEVER, False
        if slot.stalled_on is not None and slot.stalled_on not in held:
            slot.stalled_on = None
        if held.count:
            if not slot.told:  # else the check that will kill it stands
                at = state.now + slot.quiet_s
                if at > slot.check_at and self._keeps_checks:
                    at = slot.check_at
                slot.check_at = at
                if at < slot.alarm_at:
                    state.alarms.set_check(slot, at)
            if held.count > 1 and not slot.in_loaded:
                slot.in_loaded = True
                self._feeding.loaded.append(slot)
        else:
            slot.group = None
            slot.picky = False
            if not slot.told:
                slot.check_at = NEVER
        self._feeding.note_room(slot)
