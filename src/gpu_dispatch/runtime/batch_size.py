"""How many tasks go into one call: fixed, or found by trying.

Pure: told what happened, it answers with a size.

    grow      double while throughput rises by a tenth or more, measured over several full batches at each size
    settle    at the best size seen
    OOM       the size that failed is a ceiling: approached by bisection, never tried again.
    detour    a size that has worked before and fails now met larger items: shrink for a while, then come back
"""

from __future__ import annotations

GAIN = 1.10
"""A larger batch must be this much better: less is noise, and a larger batch costs memory and latency."""
SAMPLES = 4
"""Full batches at a size before it is judged, by their median: the first at a new size is often slow."""
LARGEST = 1024
"""Beyond it a batch gains little, and costs much when one of its tasks fails."""
CLOSE_ENOUGH = 0.1
"""Stop closing in on the ceiling when the gap is this part of it: an OOM costs more than the last tenth gains."""
PATIENCE = 20
"""Batches without trouble before a detour comes half a step back. It doubles when coming back fails: fewer, and items
that stay large cost an OOM every few batches; more, and one odd item slows down the next thousand."""
MOST_PATIENCE = 1280


class MemoryBounds:
    """What fits: the largest batch that has worked, the smallest that has not, and the detour after larger items."""

    def __init__(self, ceiling: int | None = None) -> None:
        self.good = 0
        self.ceiling = ceiling
        self._detour = 0  # the size used until the items are of the usual size again; 0 when there is no detour
        self._proven = 0  # the largest size of the detour that had its calm
        self._calm = 0  # batches since the last trouble or step
        self._since_trouble = 0
        self._patience = PATIENCE

    def within(self, wanted: int) -> int:
        """What is left of ``wanted``."""
        return min(wanted, self._detour) if self._detour else wanted

    @property
    def on_detour(self) -> bool:
        return self._detour > 0

    def worked(self, count: int, wanted: int) -> None:
        self.good = max(self.good, count)
        self._since_trouble += 1
        self._calm += 1
        if self._calm < self._patience:
            return
        self._calm = 0
        if not self._detour:
            self._proven, self._patience = 0, max(PATIENCE, self._patience // 2)
            return
        self._proven = self._detour
        self._detour += max(1, self._detour // 2)
        if self._detour >= wanted:
            self._detour = 0

    def failed(self, count: int) -> bool:
        """Whether this says something about the size; if not, the items were larger than usual."""
        since_trouble, self._since_trouble, self._calm = self._since_trouble, 0, 0
        if count > self.good:
            self.ceiling = count if self.ceiling is None else min(self.ceiling, count)
            return True
        if not self._detour and since_trouble >= PATIENCE:
            return False  # one odd item in many batches: not worth a detour
        if self._proven:  # we were coming back, too soon
            self._patience = min(MOST_PATIENCE, self._patience * 2)
        if self._proven >= count:
            self._proven = 0
        self._detour = max(self._proven, count // 2, 1)
        return False

    def next_up(self, wanted: int) -> int:
        """The next size to try on the way up to ``wanted``; at most double, and half-way below a ceiling."""
        good = max(1, self.good)
        if self.ceiling is None:
            return min(wanted, good * 2)
        step = min(good, (self.ceiling - good) // 2)
        if step < max(1, int(self.ceiling * CLOSE_ENOUGH)):
            return min(wanted, good)
        return min(wanted, good + step)


class FixedBatchSize:
    """What the user asked for, or as much of it as fits."""

    def __init__(self, size: int) -> None:
        self._wanted = size
        self._size = size
        self._full = 0
        self._bounds = MemoryBounds()

    @property
    def size(self) -> int:
        return self._bounds.within(self._size)

    @property
    def learnt(self) -> tuple[int, int | None]:
        return self._size, self._bounds.ceiling

    def ran(self, count: int, seconds: float) -> None:
        """A call with ``count`` tasks took ``seconds``."""
        self._bounds.worked(count, self._size)
        if self._size < self._wanted and count >= self._size:
            self._full += 1
            if self._full >= SAMPLES:
                self._full = 0
                self._size = max(self._size, self._bounds.next_up(self._wanted))

    def ran_out(self, count: int) -> None:
        """A call with ``count`` tasks ran out of memory, or of time."""
        self._full = 0
        if count > 1 and self._bounds.failed(count):
            self._size = max(1, min(self._size, count - 1, max(count // 2, self._bounds.good)))


class AutoBatchSize:
    """``longest_s``: a call should not take longer than this, whatever the throughput."""

    def __init__(self, start: int = 1, ceiling: int | None = None, longest_s: float | None = None) -> None:
        self._size = start
        self._best = start
        self._best_rate = 0.0
        self._doubted: int | None = None  # a size that was no better once; it gets a second hearing
        self._measuring_best_again = False
        self._settled = False
        self._samples: list[float] = []  # seconds
        self._longest_s = longest_s
        self._bounds = MemoryBounds(ceiling)

    @property
    def size(self) -> int:
        return self._bounds.within(self._size)

    @property
    def settled(self) -> bool:
        return self._settled

    @property
    def learnt(self) -> tuple[int, int | None]:
        """(the best size that has proven itself, the ceiling): where the next worker should begin."""
        return self._best, self._bounds.ceiling

    def ran(self, count: int, seconds: float) -> None:
        was_on_detour = self._bounds.on_detour
        self._bounds.worked(count, self._size)
        if was_on_detour or self._settled or count < self._size:
            return  # not a full batch of the size in question: it says nothing about it
        self._samples.append(seconds)
        if len(self._samples) >= SAMPLES:
            middle = max(_median(self._samples), 1e-9)
            self._samples.clear()
            self._judge(self._size / middle, middle)

    def ran_out(self, count: int) -> None:
        """A call with ``count`` tasks ran out of memory, or of time."""
        self._samples.clear()
        if count <= 1 or not self._bounds.failed(count) or count > self._size:
            return
        self._measuring_best_again = False
        if self._bounds.good:
            self._try(self._bounds.next_up(LARGEST))
        else:
            self._size = max(1, count // 2)
            self._best = min(self._best, self._size)

    def _judge(self, rate: float, seconds: float) -> None:
        if self._measuring_best_again:
            self._measuring_best_again = False
            self._best_rate = rate
            assert self._doubted is not None
            self._size = self._doubted
            return
        if rate >= self._best_rate * GAIN:
            self._best, self._best_rate, self._doubted = self._size, rate, None
            self._grow(seconds)
        elif self._doubted == self._size:
            if rate > self._best_rate:
                self._best = self._size
            self._size, self._settled = self._best, True
        else:  # a hiccup of the machine looks the same: measure both once more
            self._doubted, self._size, self._measuring_best_again = self._size, self._best, True

    def _grow(self, seconds: float) -> None:
        following = self._bounds.next_up(LARGEST)
        if self._longest_s is not None and seconds * following / self._size > self._longest_s:
            following = self._size
        self._try(following)

    def _try(self, size: int) -> None:
        """``size`` next; or, when that is nothing new, stay with the best."""
        if size > self._best:
            self._size = size
        else:
            self._size, self._settled = self._best, True


def _median(samples: list[float]) -> float:
    """As in ``statistics``, which is too much to import for this."""
    ordered = sorted(samples)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
