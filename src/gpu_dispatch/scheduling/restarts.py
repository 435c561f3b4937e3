"""How soon a slot starts again after a failure, and when it is given up.

A slot is charged with what happens *in a row*, without one finished task between: then it is the GPU, the driver or the
setup that is broken, not a task.

Several slots may share a device. When one of them is retired after its setup had worked, the device is suspect, and
the others do not get to fail ``max_restarts`` times each: their next failure is their last. Nothing clears a device of
this suspicion; its slots go on for as long as they do not fail.
"""

from __future__ import annotations

from gpu_dispatch.scheduling.slot import Slot

FIRST_BACKOFF_S = 0.05
MOST_BACKOFF_S = 5.0
"""Long enough for a driver to reset a GPU between the last few attempts, short enough not to waste a card that
came back."""
FIRST_STARTS = 3
"""A slot that has never been ready is given up after this many dead processes: a setup that dies three times in a
row will die a fourth time."""


class Restarts:
    __slots__ = ("_max_restarts", "_suspect_devices")

    def __init__(self, max_restarts: int) -> None:
        self._max_restarts = max_restarts
        self._suspect_devices: set[int] = set()

    def give_up(self, slot: Slot) -> bool:
        """Its worker failed once more: was that the last time?"""
        slot.failures_in_a_row += 1
        if slot.hopeless or slot.device in self._suspect_devices:
            return True
        if not slot.was_ready and slot.failures_in_a_row >= FIRST_STARTS:
            return True
        return slot.failures_in_a_row > self._max_restarts

    def backoff_s(self, slot: Slot) -> float:
        """The wait before the next start. The first restart is immediate: one death says nothing about the slot."""
        if slot.failures_in_a_row <= 1:
            return 0.0
        return min(MOST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(slot.failures_in_a_row - 2, 60))

    def note_retired(self, slot: Slot, *, in_setup: bool) -> None:
        if not in_setup:
            self._suspect_devices.add(slot.device)
