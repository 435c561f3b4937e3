"""Tasks that are waiting for a slot: first come first served, or the longest first when costs are known."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice


class PendingTasks:
    """Tasks without a slot.

    ``returned`` tasks (recalled, moved from a dead worker, retried) go before those that never had a slot, so that
    none is overtaken for ever.
    """

    __slots__ = ("_fresh", "_heap", "_returned")

    def __init__(self) -> None:
        self._fresh: deque[int] = deque()
        self._heap: list[tuple[float, int]] = []
        self._returned: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._fresh) + len(self._heap) + len(self._returned)

    def __iter__(self) -> Iterator[int]:
        yield from self._returned
        yield from (task for _, task in self._heap)
        yield from self._fresh

    def add(self, task_ids: Sequence[int], costs: Sequence[float] | None) -> None:
        if costs is None:
            self._fresh.extend(task_ids)
        else:
            for task, cost in zip(task_ids, costs, strict=True):
                heapq.heappush(self._heap, (-cost, task))

    def put_back(self, task_ids: Iterable[int]) -> None:
        self._returned.extend(task_ids)

    def take(self, count: int) -> list[int]:
        """At most ``count`` tasks, in the order in which they should run."""
        taken: list[int] = []
        while self._returned and len(taken) < count:
            taken.append(self._returned.popleft())
        while self._heap and len(taken) < count:
            taken.append(heapq.heappop(self._heap)[1])
        room = count - len(taken)
        fresh = self._fresh
        if room >= len(fresh):
            taken.extend(fresh)
            fresh.clear()
        elif room > 0:
            taken.extend(islice(fresh, room))
            for _ in range(room):
                fresh.popleft()
        return taken

    def take_all(self) -> list[int]:
        return self.take(len(self))
