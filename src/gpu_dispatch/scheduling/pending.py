"""Tasks that any slot may take: first come first served, or the longest first when costs are known."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence


class PendingTasks:
    """``put_back`` tasks (recalled, moved from a dead worker, retried) go before those that never had a slot, so that
    none is overtaken for ever."""

    __slots__ = ("_fresh", "_heap", "_returned", "count")

    def __init__(self) -> None:
        self._fresh: deque[int] = deque()
        self._heap: list[tuple[float, int]] = []
        self._returned: deque[int] = deque()
        self.count = 0
        """How many there are. An attribute, since it is asked for with every input."""

    def __iter__(self) -> Iterator[int]:
        yield from self._returned
        yield from (task for _, task in self._heap)
        yield from self._fresh

    def add(self, task_ids: Sequence[int], costs: Sequence[float] | None) -> None:
        self.count += len(task_ids)
        if costs is None:
            self._fresh.extend(task_ids)
        else:
            for task, cost in zip(task_ids, costs, strict=True):
                heapq.heappush(self._heap, (-cost, task))

    def put_back(self, task_ids: Iterable[int]) -> None:
        returned = self._returned
        before = len(returned)
        returned.extend(task_ids)
        self.count += len(returned) - before

    def take(self, count: int) -> list[int]:
        """At most ``count`` tasks, in the order in which they should run."""
        fresh = self._fresh
        taken: list[int] = []
        if self._returned or self._heap:
            self._take_first(taken, count)
        elif count == 1 and fresh:
            self.count -= 1
            return [fresh.popleft()]
        room = count - len(taken)
        if room >= len(fresh):
            taken.extend(fresh)
            fresh.clear()
        elif room:
            popleft = fresh.popleft
            taken.extend([popleft() for _ in range(room)])
        self.count -= len(taken)
        return taken

    def _take_first(self, taken: list[int], count: int) -> None:
        while self._returned and len(taken) < count:
            taken.append(self._returned.popleft())
        while self._heap and len(taken) < count:
            taken.append(heapq.heappop(self._heap)[1])
