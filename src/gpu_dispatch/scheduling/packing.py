"""How many workers fit on one GPU: found by measuring, one step at a time.

    one worker ─► measure ─► add one ─► measure ─► … until memory is short, or the last one did not help
                                              └─► take the last one away again, and stay
    while staying: when throughput falls well below what this number once gave, take one away

Pure: told what was measured, it answers with a step. One instance per GPU.
"""

from __future__ import annotations

from enum import Enum

from gpu_dispatch.light import dataclass

HEADROOM = 1.15
"""A worker is expected to need this much of what those before it used: first tasks rarely use the most."""
GAIN = 1.10
"""Another worker must raise throughput by this factor to stay: less is noise, and it costs memory."""
FALL = 0.75
"""Below this part of the best throughput that the present number of workers gave, one is too many."""
MOST = 16
SPELL_S = 2.0
"""A measurement takes at least this long,"""
SPELL_TASKS = 20
"""and counts at least this many tasks; after FOREVER_S it is judged with what there is."""
FOREVER_S = 60.0


class Step(Enum):
    STAY = "stay"
    ADD = "add"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known about one GPU at one instant."""

    at: float
    workers: int
    """Workers in service on it."""
    all_ready: bool
    """None of them is still loading."""
    settled: int
    """Tasks that its workers have finished since the run began."""
    memory_used: int | None = None
    memory_total: int | None = None
    memory_of_workers: int | None = None
    """What its workers hold of it, when the driver tells."""


class Packing:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._began: Reading | None = None  # the spell that is being measured
        self._rates: dict[int, float] = {}  # by number of workers
        self._searching = True
        self._idle_memory: int | None = None  # used on the device before our first worker

    def look(self, now: Reading) -> Step:
        if self._idle_memory is None and now.memory_used is not None:
            self._idle_memory = max(0, now.memory_used - (now.memory_of_workers or 0))
        began = self._began
        if not now.all_ready or began is None or began.workers != now.workers:
            self._began = now if now.all_ready else None
            return Step.STAY
        seconds, tasks = now.at - began.at, now.settled - began.settled
        if seconds < SPELL_S or (tasks < SPELL_TASKS and seconds < FOREVER_S):
            return Step.STAY
        self._began = now
        return self._judge(now, tasks / seconds)

    def _judge(self, now: Reading, rate: float) -> Step:
        count = now.workers
        before, best = self._rates.get(count - 1), self._rates.get(count, 0.0)
        self._rates[count] = max(best, rate)
        if self._searching:
            if before is not None and rate < before * GAIN:
                self._searching = False
                return Step.REMOVE
            if count < self._most and self._fits_another(now):
                return Step.ADD
            self._searching = False
            return Step.STAY
        if count > 1 and rate < best * FALL:
            self._rates[count] = rate  # what it gives now; the smaller number is measured afresh
            self._rates.pop(count - 1, None)
            return Step.REMOVE
        return Step.STAY

    def _fits_another(self, now: Reading) -> bool:
        if now.memory_used is None or now.memory_total is None:
            return False  # nobody can say: stay with what is known to fit
        ours = now.memory_of_workers
        if ours is None:
            ours = now.memory_used - (self._idle_memory or 0)
        each = ours / now.workers
        return now.memory_total - now.memory_used >= each * HEADROOM
