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
        self._fresh: deque[Sequence[int]] = deque()  # as they came: usually ranges, which cost nothing to cut
        self._heap: list[tuple[float, int]] = []
        self._returned: deque[int] = deque()
        self.count = 0
        """How many there are. An attribute, since it is asked for with every input."""

    def __iter__(self) -> Iterator[int]:
        yield from self._returned
        yield from (task for _, task in self._heap)
        for tasks in self._fresh:
            yield from tasks

    def add(self, task_ids: Sequence[int], costs: Sequence[float] | None) -> None:
        self.count += len(task_ids)
        if costs is None:
            self._fresh.append(task_ids)
        else:
            for task, cost in zip(task_ids, costs, strict=True):
                heapq.heappush(self._heap, (-cost, task))

    def put_back(self, task_ids: Iterable[int]) -> None:
        returned = self._returned
        before = len(returned)
        returned.extend(task_ids)
        self.count += len(returned) - before

    def take(self, count: int) -> Sequence[int]:
        """At most ``count`` tasks, in the order in which they should run."""
        if not self._returned and not self._heap and self._fresh and count <= len(self._fresh[0]):
            return self._take_fresh(count)
        taken: list[int] = []
        while self._returned and len(taken) < count:
            taken.append(self._returned.popleft())
        while self._heap and len(taken) < count:
            taken.append(heapq.heappop(self._heap)[1])
        self.count -= len(taken)
        while self._fresh and len(taken) < count:
            taken += self._take_fresh(count - len(taken))
        return taken

    def _take_fresh(self, count: int) -> Sequence[int]:
        """From those that came together, and before all others."""
        tasks = self._fresh.popleft()
        if count < len(tasks):
            self._fresh.appendleft(tasks[count:])
            tasks = tasks[:count]
        self.count -= len(tasks)
        return tasks
