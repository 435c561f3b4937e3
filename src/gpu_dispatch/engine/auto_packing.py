"""``workers_per_gpu="auto"``: looking at each GPU from time to time, and adding or taking away a worker.

The judgement is pure (scheduling/packing.py); this reads the figures for it and carries its steps out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpu_dispatch.observe.stats import RunStats
from gpu_dispatch.scheduling.packing import Packing, Reading, Step

LOOK_EVERY_S = 0.5

Memory = tuple[int, int, int | None]
"""(used, total, held by these workers), in bytes."""


class AutoPacking:
    def __init__(
        self,
        gpu_of: list[int],
        stats: RunStats,
        memory_of: Callable[[Sequence[int]], Memory | None],
        add_worker: Callable[[int], None],
        remove_worker: Callable[[int], None],
    ) -> None:
        self._gpu_of = gpu_of  # slot → number of its GPU; grows as workers are added
        self._stats = stats
        self._memory_of = memory_of
        self._add_worker = add_worker
        self._remove_worker = remove_worker
        self._packings = {gpu: Packing() for gpu in set(gpu_of)}
        self._leaving: set[int] = set()
        self.look_at = 0.0
        """When to call ``look`` next."""

    def look(self, now: float) -> None:
        self.look_at = now + LOOK_EVERY_S
        for gpu, packing in self._packings.items():
            every = [slot for slot, of in enumerate(self._gpu_of) if of == gpu]
            slots = [slot for slot in every if slot not in self._leaving and self._in_service(slot)]
            if not slots:
                continue
            step = packing.look(self._reading(now, every, slots))
            if step is Step.ADD:
                self._gpu_of.append(gpu)
                self._add_worker(slots[0])
            elif step is Step.REMOVE:
                self._leaving.add(slots[-1])
                self._remove_worker(slots[-1])

    def _in_service(self, slot: int) -> bool:
        return self._stats.workers[slot].status not in ("error", "out of service", "finished")

    def _reading(self, now: float, every: list[int], slots: list[int]) -> Reading:
        workers = self._stats.workers
        ready = all(workers[slot].status == "idle" for slot in slots)  # the loop's word for "ready"
        settled = sum(workers[slot].completed + workers[slot].failed for slot in every)
        used, total, ours = self._memory_of(slots) or (None, None, None)
        return Reading(now, len(slots), ready, settled, used, total, ours)
