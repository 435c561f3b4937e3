"""How many items may be pulled and not yet delivered. That bound is the backpressure."""

from __future__ import annotations

import threading


class Credit:
    def __init__(self, size: int) -> None:
        self._free = size
        self._condition = threading.Condition()
        self._closed = False

    def take(self) -> int:
        """All that is free, waiting for at least one; 0 when closed."""
        with self._condition:
            while not self._free and not self._closed:
                self._condition.wait()
            if self._closed:
                return 0
            free, self._free = self._free, 0
            return free

    def give_back(self, count: int) -> None:
        with self._condition:
            self._free += count
            self._condition.notify()

    def close(self) -> None:
        """Whoever waits gets nothing, now and later."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
