"""When to look at what: one lazy alarm per slot.

An instant that moves later costs nothing: the alarm that is set goes off early, and is set again. Only one that moves
earlier is pushed. A slot in a steady flow of answers therefore touches the heap once per ``window.STALL_S``, not once
per answer; and finding the next instant never takes a walk over all slots.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from gpu_dispatch.scheduling.slot import NEVER, Slot


class Alarms:
    __slots__ = ("_heap", "_slots", "_wake_at")

    def __init__(self, slots: list[Slot]) -> None:
        self._slots = slots
        self._heap: list[tuple[float, int]] = []
        self._wake_at = NEVER

    @property
    def next_at(self) -> float:
        """The next instant at which ``due`` may have something to say; it may be too early, never too late."""
        heap_at = self._heap[0][0] if self._heap else NEVER
        return heap_at if heap_at < self._wake_at else self._wake_at

    def wake(self, at: float) -> None:
        """Let there be a TimePassed by then, on nobody's account."""
        if at < self._wake_at:
            self._wake_at = at

    def set_check(self, slot: Slot, at: float) -> None:
        slot.check_at = at
        if at < slot.alarm_at:
            self._push(slot, at)

    def set_deadline(self, slot: Slot, at: float) -> None:
        slot.deadline_at = at
        if at < slot.alarm_at:
            self._push(slot, at)

    def _push(self, slot: Slot, at: float) -> None:
        slot.alarm_at = at
        heapq.heappush(self._heap, (at, slot.number))

    def due(self, now: float) -> Iterator[Slot]:
        """Slots whose check or deadline may have come. Whatever they are set to meanwhile counts from then on."""
        if self._wake_at <= now:
            self._wake_at = NEVER
        heap = self._heap
        while heap and heap[0][0] <= now:
            at, number = heapq.heappop(heap)
            slot = self._slots[number]
            if at != slot.alarm_at:
                continue  # it was set earlier since, and has gone off then
            slot.alarm_at = NEVER
            if slot.check_at <= now or slot.deadline_at <= now:
                yield slot
            self._rearm(slot)

    def _rearm(self, slot: Slot) -> None:
        at = min(slot.check_at, slot.deadline_at)
        if at < slot.alarm_at:
            self._push(slot, at)
