"""What the end of a worker means for its tasks and for its slot.

A death is charged to the task that was running, and the tasks behind it move. The slot is charged with what happens
in a row; see restarts.py.
"""

from __future__ import annotations

from gpu_dispatch.scheduling import inputs as told
from gpu_dispatch.scheduling.copies import Copies
from gpu_dispatch.scheduling.fates import Fates
from gpu_dispatch.scheduling.lifecycle import Lifecycle
from gpu_dispatch.scheduling.moving import Moving
from gpu_dispatch.scheduling.slot import Kill, Phase, Slot
from gpu_dispatch.scheduling.state import State

UNDEAD = "the worker could not be killed (it sits in the kernel or a driver); its GPU is out of service"


class Deaths:
    __slots__ = ("_copies", "_fates", "_lifecycle", "_moving", "_state")

    def __init__(self, state: State, fates: Fates, copies: Copies, moving: Moving, lifecycle: Lifecycle) -> None:
        self._state = state
        self._fates = fates
        self._copies = copies
        self._moving = moving
        self._lifecycle = lifecycle

    def on_finished(self, what: told.WorkerFinished) -> None:
        slot = self._state.slots[what.slot]
        if slot.in_service and slot.phase is not Phase.WAITING:
            # With tasks in its hands it was not us who told it to finish; it has not begun them.
            self._fates.put_back(slot, self._copies.drop(slot, tuple(slot.held)))
            self._moving.take_out_all(slot)
            self._lifecycle.leave(slot, Phase.GONE)

    def on_died(self, what: told.WorkerDied) -> None:
        slot = self._state.slots[what.slot]
        phase, why = slot.phase, slot.killed_for
        if not slot.in_service or phase is Phase.WAITING:
            return
        if phase is Phase.STARTING:
            self._state.starting -= 1
        self._decide_fates(slot, what)
        self._moving.take_out_all(slot)
        if phase is Phase.STARTING or phase is Phase.EXITING or why is Kill.SETUP:
            self._lifecycle.restart_or_retire(slot, self._setup_text(slot, what.cause), in_setup=True)
        elif phase is Phase.FINISHING or why is Kill.UNNEEDED or why is Kill.CLEANUP:
            self._lifecycle.leave(slot, Phase.GONE)
        else:
            # A worker that we killed because its task hung says nothing about the slot.
            self._lifecycle.restart_or_retire(slot, what.cause, in_setup=False, blameless=why is Kill.TIMEOUT)

    def _setup_text(self, slot: Slot, cause: str) -> str:
        if slot.setup_text is not None:
            return slot.setup_text
        if slot.killed_for is Kill.SETUP:
            slot.hopeless = not slot.was_ready
            return f"setup did not finish within {self._state.settings.setup_timeout:g} s and was killed.\n{cause}"
        return cause

    def _decide_fates(self, slot: Slot, what: told.WorkerDied) -> None:
        """Only what was running is charged; and only if we did not kill the worker on another task's account."""
        suspects = self._copies.drop(slot, [task for task in what.suspects if task in slot.held])
        bystanders = self._copies.drop(slot, [task for task in slot.held if task not in what.suspects])
        why, fates = slot.killed_for, self._fates
        if why is Kill.DRAIN:
            fates.cancel((*suspects, *bystanders))
            return
        guilty, kind = suspects, "crash"
        if why is Kill.TIMEOUT:
            guilty = suspects if slot.frozen else [task for task in suspects if task in slot.told]
            kind = "timeout"
        elif why is Kill.POISONED:
            guilty = []
        if not guilty:
            fates.put_back(slot, (*suspects, *bystanders))
            return
        slot.group = None  # the guilty one is among those that ran: the others are cleared
        fates.put_back(slot, [task for task in suspects if task not in guilty])
        fates.put_back(slot, bystanders)
        fates.judge(slot, guilty, kind, what.cause, killed_worker=True)

    def give_up_undead(self, slot: Slot) -> None:
        """SIGKILL did not end it. It may still hold its tasks: nobody else may get them."""
        overdue = slot.told if slot.killed_for is Kill.TIMEOUT else ()
        for task in self._copies.drop(slot, tuple(slot.held)):
            if task in overdue:
                self._fates.settle(slot.number, task, "timeout", "timeout", UNDEAD)
            else:
                self._fates.settle(slot.number, task, "error", "lost", UNDEAD)
        self._moving.take_out_all(slot)
        self._lifecycle.retire(slot, UNDEAD, in_setup=False)
