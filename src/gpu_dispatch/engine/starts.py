"""Telling those who listen that a task has started: before its outcome, and not much later than it did."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from gpu_dispatch.engine.notices import Notice, Started
from gpu_dispatch.engine.timeline import Timeline

LISTEN_S = 0.05
"""How late a start may be told. Tasks shorter than this are told with their results."""


class Starts:
    def __init__(
        self,
        worker_ids: Sequence[int],
        unsettled: Container[int],
        tell: Callable[[Notice], None],
        timeline: Timeline | None,
        *,
        announce: bool,
    ) -> None:
        self._worker_ids = worker_ids
        self._unsettled = unsettled
        self._tell = tell
        self._timeline = timeline
        self._announced: set[int] | None = set() if announce else None
        self.is_listened_to = announce or timeline is not None
        self.look_at = 0.0
        """When to call ``look`` next, while somebody listens."""

    def began(self, task_id: int, slot: int) -> None:
        if self._announced is not None and task_id in self._unsettled and task_id not in self._announced:
            self._announced.add(task_id)
            self._tell(Started(self._worker_ids[slot], (task_id,)))
        if self._timeline is not None:
            self._timeline.started((task_id,), slot)

    def look(self, now: float, running: Callable[[int], tuple[tuple[int, ...], float | None]]) -> None:
        """A task that starts right behind another is not announced by its worker: that would cost tiny tasks too much.
        If it turns out not to be tiny, it is seen here."""
        self.look_at = now + LISTEN_S
        for slot in range(len(self._worker_ids)):
            for task_id in running(slot)[0]:
                self.began(task_id, slot)

    def ended(self, task_ids: Sequence[int], slot: int) -> None:
        """Whoever ended has started: say so first."""
        if self._announced is not None:
            fresh = [task_id for task_id in task_ids if task_id not in self._announced and task_id in self._unsettled]
            self._announced.difference_update(task_ids)
            if fresh:
                self._tell(Started(self._worker_ids[slot], fresh))
        if self._timeline is not None:
            self._timeline.started(task_ids, slot)

    def forget(self, task_ids: Iterable[int]) -> None:
        """Their worker died: should they start again, that is told again."""
        if self._announced is not None:
            self._announced.difference_update(task_ids)
