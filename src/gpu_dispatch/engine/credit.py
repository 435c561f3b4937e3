"""How many items may be pulled and not yet delivered. That bound is the backpressure."""

from __future__ import annotations

from queue import SimpleQueue


class Credit:
    """One thread takes, another gives back."""

    def __init__(self, size: int) -> None:
        # In parcels of an eighth: the rest is in the workers' hands meanwhile, and to wake the feeder for every task
        # would cost more than a tiny task does.
        self._enough = max(1, size // 8)
        self._saved = 0
        self._parcels: SimpleQueue[int] = SimpleQueue()
        self._parcels.put(size)
        self._closed = False

    def take(self) -> int:
        """All that is free, waiting for some; 0 when closed."""
        if self._closed:
            return 0
        free = self._parcels.get()
        while not self._parcels.empty():
            free += self._parcels.get()
        return 0 if self._closed else free

    def give_back(self, count: int) -> None:
        self._saved += count
        if self._saved >= self._enough:
            self._parcels.put(self._saved)
            self._saved = 0

    def close(self) -> None:
        """Whoever waits gets nothing, now and later."""
        self._closed = True
        self._parcels.put(0)
