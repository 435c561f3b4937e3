"""Tasks per second, over the whole run and lately, and what they say about the time left."""

from __future__ import annotations

import math
from collections import deque

HISTORY_S = 60
RECENT_S = 10


class Throughput:
    """Counts settled tasks in buckets of a second."""

    def __init__(self, started_at: float) -> None:
        self._started_at = started_at
        self._buckets: deque[int] = deque([0], maxlen=HISTORY_S + 1)
        self._second = 0

    def add(self, count: int, now: float) -> None:
        self._advance(now)
        self._buckets[-1] += count

    def history(self, now: float) -> list[float]:
        """Tasks in each full second, the latest last."""
        self._advance(now)
        return [float(count) for count in list(self._buckets)[:-1]]

    def recent(self, now: float) -> float:
        full = self.history(now)[-RECENT_S:]
        return sum(full) / len(full) if full else self._buckets[-1] / max(1e-9, now - self._started_at)

    def eta(self, remaining: int, now: float) -> tuple[float, float, float] | None:
        """(low, likely, high) seconds left: the likely one from the recent rate, the others two standard errors off."""
        full = self.history(now)[-HISTORY_S:]
        rates = full if len(full) >= 3 else [self.recent(now)]
        rate = sum(rates) / len(rates)
        if remaining <= 0:
            return (0.0, 0.0, 0.0)
        if rate <= 0:
            return None
        spread = math.sqrt(sum((r - rate) ** 2 for r in rates) / max(1, len(rates) - 1) / len(rates))
        # A handful of settled tasks says little, whatever their spread: the error of counting is at least 1/√n.
        spread = max(spread, rate / math.sqrt(max(1.0, sum(rates))))
        slowest = max(rate - 2 * spread, rate / 4)
        return (remaining / (rate + 2 * spread), remaining / rate, remaining / slowest)

    def _advance(self, now: float) -> None:
        second = int(now - self._started_at)
        steps = second - self._second
        if steps > 0:
            self._second = second
            self._buckets.extend([0] * min(steps, HISTORY_S + 1))
