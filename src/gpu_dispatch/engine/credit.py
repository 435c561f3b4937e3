"""How many items may be pulled and not yet delivered. That bound is the backpressure."""

from __future__ import annotations

import threading


class Credit:
    def __init__(self, size: int) -> None:
        self._free = size
        # Wake the feeder for an eighth at a time: the rest is in the workers' hands meanwhile, and a wake-up per
        # task would cost more than a tiny task does.
        self._enough = max(1, size // 8)
        self._condition = threading.Condition()
        self._closed = False

    def take(self) -> int:
        """All that is free, waiting for enough; 0 when closed."""
        with self._condition:
            while self._free < self._enough and not self._closed:
                self._condition.wait()
            if self._closed:
                return 0
            free, self._free = self._free, 0
            return free

    def give_back(self, count: int) -> None:
        with self._condition:
            self._free += count
            if self._free >= self._enough:
                self._condition.notify()

    def close(self) -> None:
        """Whoever waits gets nothing, now and later."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
