"""How many workers come to life at once: as many as there are cores, while others wait for their first start.

Starting an interpreter and importing what it needs is pure computing. Four that start together on two cores are all
ready at the same late moment; two after two, the first is ready in half the time, and the last no later.

What comes after that (loading a model) waits for disks and devices, and nobody waits for it: a start is over when the
worker is ready, or gone, or after ``BIRTH_S``. Only first starts wait: what follows a crash is not held up.
"""

from __future__ import annotations

from gpu_dispatch.scheduling.slot import NEVER, Phase, Slot

BIRTH_S = 0.1
"""Longer than a worker takes to come to its setup on a core of its own: 30 ms, or 70 when its class travels by value.
Twice as long would keep the last of 32 workers on four cores from loading for more than a second; half as long would
start the next ones before the first is ready."""


class Births:
    __slots__ = ("_cores", "_going_on")

    def __init__(self, cores: int | None) -> None:
        self._cores = cores
        self._going_on: list[tuple[float, Slot]] = []  # until when at most

    def begin(self, slot: Slot, now: float) -> None:
        if self._cores is not None:
            self._going_on.append((now + BIRTH_S, slot))

    def has_room(self, now: float) -> bool:
        if self._cores is None:
            return True
        self._going_on = [
            (until, slot) for until, slot in self._going_on if until > now and slot.phase is Phase.STARTING
        ]
        return len(self._going_on) < self._cores

    @property
    def room_at(self) -> float:
        """When there will be room at the latest."""
        return min((until for until, _ in self._going_on), default=NEVER)
