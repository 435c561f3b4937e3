"""How many tasks go into one call: fixed, or found by trying.

Pure: told what happened, it answers with a size.

    grow      double while throughput rises by a tenth or more, measured over several full batches at each size
    settle    at the best size seen
    OOM       halve at once; the size that failed is a ceiling, approached by bisection and never tried again.
              A size that has worked before and fails now met larger items: shrink for a while, then come back
"""

from __future__ import annotations

GAIN = 1.10
"""A larger batch must be this much better: less is noise, and a larger batch costs memory and latency."""
SAMPLES = 4
"""Full batches at a size before it is judged."""
LARGEST = 1024
CLOSE_ENOUGH = 0.1
"""Stop closing in on the ceiling when the gap is this part of it."""
COME_BACK_AFTER = 20
"""Batches without trouble before a size that once worked is trusted again."""


class FixedBatchSize:
    """What the user asked for, shrunk after an OOM and coming back later."""

    def __init__(self, size: int) -> None:
        self._wanted = size
        self._size = size
        self._calm = 0
        self.ceiling: int | None = None

    @property
    def size(self) -> int:
        return self._size

    def ran(self, count: int, seconds: float) -> None:
        """A call with ``count`` tasks took ``seconds``."""
        if self._size < self._wanted:
            self._calm += 1
            if self._calm >= COME_BACK_AFTER:
                self._calm = 0
                self._size = self._wanted if self.ceiling is None else min(self._wanted, self.ceiling - 1)

    def ran_out(self, count: int) -> None:
        """A call with ``count`` tasks ran out of memory."""
        self._calm = 0
        if count > 1:
            if self.ceiling is None or count < self.ceiling:
                self.ceiling = count
            self._size = max(1, count // 2)


class AutoBatchSize:
    def __init__(self, start: int = 1, ceiling: int | None = None) -> None:
        self._size = start
        self._best = start
        self._best_rate = 0.0
        self._largest_good = 0
        self._settled = False
        self._count = 0
        self._tasks = 0
        self._seconds = 0.0
        self._calm = 0
        self._resume_at: int | None = None  # the size to come back to, after larger items made us shrink
        self.ceiling = ceiling

    @property
    def size(self) -> int:
        return self._size

    @property
    def settled(self) -> bool:
        return self._settled

    def ran(self, count: int, seconds: float) -> None:
        if self._resume_at is not None:
            self._calm += 1
            if self._calm >= COME_BACK_AFTER:
                self._size, self._resume_at, self._calm = self._resume_at, None, 0
            return
        if count < self._size or self._settled:
            return  # not a full batch: it says nothing about the size
        self._count += 1
        self._tasks += count
        self._seconds += seconds
        self._largest_good = max(self._largest_good, count)
        if self._count >= SAMPLES:
            self._judge(self._tasks / max(self._seconds, 1e-9))

    def ran_out(self, count: int) -> None:
        self._reset()
        if count <= self._largest_good:
            self._resume_at = self._resume_at or self._size
            self._calm = 0
            self._size = max(1, count // 2)
            return
        self.ceiling = count if self.ceiling is None else min(self.ceiling, count)
        if self._largest_good:
            self._try_below_ceiling()
        else:
            self._size = max(1, count // 2)

    def _judge(self, rate: float) -> None:
        better = rate > self._best_rate * GAIN
        if rate > self._best_rate:
            self._best, self._best_rate = self._size, rate
        self._reset()
        if not better:
            self._size, self._settled = self._best, True
        elif self.ceiling is None:
            self._size = min(LARGEST, self._size * 2)
            self._settled = self._size == self._best
        else:
            self._try_below_ceiling()

    def _try_below_ceiling(self) -> None:
        assert self.ceiling is not None
        good = max(1, self._largest_good)
        step = min(good, (self.ceiling - good) // 2)
        if step < max(1, int(self.ceiling * CLOSE_ENOUGH)):
            self._size, self._settled = good, True
        else:
            self._size = good + step

    def _reset(self) -> None:
        self._count = self._tasks = 0
        self._seconds = 0.0
