"""With more workers than cores, as many as there are cores get a head start.

Starting an interpreter and importing what it needs is pure computing. Four that start together on two cores are all
ready at the same late moment; if two start first, the first result is there in half the time. The price: the last
worker is ready some 10 ms later, and by ``HEAD_START_S`` where every setup takes longer than that.

The others follow when one of the first is ready, or has failed, or after ``HEAD_START_S``: nobody waits for a model
that takes a minute to load. They follow one by one, ``BREATH_S`` apart, because starting a process takes the parent
milliseconds in which it reads no result. What starts again after a crash waits for nobody.
"""

from __future__ import annotations

from gpu_dispatch.scheduling.slot import NEVER, Phase, Slot

HEAD_START_S = 0.1
"""Longer than a worker takes to come to its setup on a core of its own: 30 ms, or 70 when its class travels by value.
Less would start the others before the first is ready; more would be lost where every setup is slow."""
BREATH_S = 0.005
"""Long enough for a worker that is ready to answer its first task, and shorter than a core takes to start another."""
ALL = 1 << 30


class HeadStart:
    __slots__ = ("_cores", "_first", "_is_over", "next_at")

    def __init__(self, cores: int | None) -> None:
        self._cores = ALL if cores is None else cores
        self._first: list[Slot] = []
        self._is_over = False
        self.next_at = NEVER
        """When the next of the others may start, at the latest."""

    def begin(self, slot: Slot, now: float) -> None:
        """A worker starts for the first time."""
        if len(self._first) < self._cores:
            self._first.append(slot)
            self.next_at = min(self.next_at, now + HEAD_START_S)
        else:
            self.next_at = now + BREATH_S

    def room(self, now: float) -> int:
        """How many may start for the first time at this instant."""
        if len(self._first) < self._cores:
            return self._cores - len(self._first)
        if not self._is_over and any(slot.phase is not Phase.STARTING for slot in self._first):
            self._is_over = True
            self.next_at = min(self.next_at, now + BREATH_S)
        return int(now >= self.next_at)
