"""Every task that has no slot: those that any slot may take, and those with a wish."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator

from gpu_dispatch.scheduling.pending import PendingTasks


class WaitingTasks:
    __slots__ = ("_delayed", "_grouped", "elsewhere", "groups", "pending")

    def __init__(self) -> None:
        self.pending = PendingTasks()
        self.elsewhere: list[tuple[int, int]] = []
        """(task, device): that device's context broke while the task ran there. Any other device first."""
        self.groups: deque[tuple[int, ...]] = deque()
        """Suspects of a crash, each group to be run as one batch, alone. Changed by ``add_group``, ``take_group``."""
        self._grouped = 0  # tasks in groups; counted, because other threads ask for ``count``
        self._delayed: list[tuple[float, int]] = []  # (ready_at, task): the back-off before a retry

    @property
    def count(self) -> int:
        return self.pending.count + self._grouped + len(self.elsewhere) + len(self._delayed)

    @property
    def delayed_until(self) -> float | None:
        return self._delayed[0][0] if self._delayed else None

    def add_group(self, tasks: tuple[int, ...]) -> None:
        self.groups.append(tasks)
        self._grouped += len(tasks)

    def take_group(self) -> tuple[int, ...]:
        tasks = self.groups.popleft()
        self._grouped -= len(tasks)
        return tasks

    def delay(self, task: int, until: float) -> None:
        heapq.heappush(self._delayed, (until, task))

    def take_due(self, now: float) -> list[int]:
        """Tasks whose back-off is over."""
        due: list[int] = []
        while self._delayed and self._delayed[0][0] <= now:
            due.append(heapq.heappop(self._delayed)[1])
        return due

    def take_all(self) -> list[int]:
        tasks = list(self.pending.take(self.pending.count))
        tasks += [task for task, _ in self.elsewhere]
        tasks += [task for group in self.groups for task in group]
        tasks += [task for _, task in self._delayed]
        self.elsewhere.clear()
        self.groups.clear()
        self._grouped = 0
        self._delayed.clear()
        return tasks

    def places(self) -> Iterator[tuple[int, str]]:
        for task in self.pending:
            yield task, "pending"
        for task, device in self.elsewhere:
            yield task, f"not on device {device}"
        for group in self.groups:
            for task in group:
                yield task, "group"
        for _, task in self._delayed:
            yield task, "delayed"
