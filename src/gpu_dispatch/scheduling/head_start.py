"""With more workers than cores, as many as there are cores get a head start.

Starting an interpreter and importing what it needs is pure computing. Four that start together on two cores are all
ready at the same late moment; if two start first, the first result is there in half the time, and the last worker is
ready no later.

The others follow when one of the first is ready, or has failed, or after ``HEAD_START_S``: nobody waits for a model
that takes a minute to load. They follow one at a time, between one look at the workers and the next, because starting
a process takes the parent milliseconds in which it reads no result. What starts again after a crash waits for nobody.
"""

from __future__ import annotations

from gpu_dispatch.scheduling.slot import NEVER, Phase, Slot

HEAD_START_S = 0.1
"""Longer than a worker takes to come to its setup on a core of its own: 30 ms, or 70 when its class travels by value.
Less would start the others before the first is ready. More would be lost where every setup takes longer than this."""
ALL = 1 << 30


class HeadStart:
    __slots__ = ("_cores", "_first", "_until")

    def __init__(self, cores: int | None) -> None:
        self._cores = ALL if cores is None else cores
        self._first: list[Slot] = []
        self._until = NEVER

    def begin(self, slot: Slot, now: float) -> None:
        """A worker starts for the first time."""
        if len(self._first) < self._cores:
            self._first.append(slot)
            self._until = min(self._until, now + HEAD_START_S)

    def room(self, now: float) -> int:
        """How many may start for the first time at this look."""
        return self._cores - len(self._first) or int(self._is_over(now))

    def look_again_at(self, now: float) -> float:
        return now if self._is_over(now) else self._until

    def _is_over(self, now: float) -> bool:
        return now >= self._until or any(slot.phase is not Phase.STARTING for slot in self._first)
