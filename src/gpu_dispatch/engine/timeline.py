"""When each task was queued, sent, started and finished. Kept only while somebody listens (``on_progress``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from gpu_dispatch.protocol import ProgressEvent
from gpu_dispatch.scheduling import actions as do


class _Marks:
    __slots__ = ("attempt", "queued_at", "sent_at", "started_at")

    def __init__(self, queued_at: float) -> None:
        self.queued_at = queued_at
        self.sent_at: float | None = None
        self.started_at: float | None = None
        self.attempt = 0


class Timeline:
    def __init__(
        self, worker_ids: Sequence[int], devices: Sequence[str], publish: Callable[[ProgressEvent], None]
    ) -> None:
        self._worker_ids = worker_ids
        self._devices = devices
        self._publish = publish
        self._marks: dict[int, _Marks] = {}

    def queued(self, task_ids: Iterable[int]) -> None:
        now = time.monotonic()
        for task_id in task_ids:
            self._marks[task_id] = _Marks(now)
            self._publish(ProgressEvent("queued", now, task_id, queued_at=now))

    def sent(self, task_ids: Iterable[int], slot: int) -> None:
        now = time.monotonic()
        for task_id in task_ids:
            marks = self._marks[task_id]
            marks.sent_at, marks.started_at = now, None
            marks.attempt += 1
            self._task_event("sent", now, task_id, marks, slot)

    def started(self, task_ids: Iterable[int], slot: int) -> None:
        """Tells of a start once per attempt. Calls for tasks that are settled already are ignored."""
        now = time.monotonic()
        for task_id in task_ids:
            marks = self._marks.get(task_id)
            if marks is not None and marks.started_at is None:
                marks.started_at = now
                self._task_event("started", now, task_id, marks, slot)

    def given_back(self, task_ids: Iterable[int]) -> None:
        """Not an attempt after all: it comes again, from another worker."""
        for task_id in task_ids:
            marks = self._marks.get(task_id)
            if marks is not None and marks.started_at is None:
                marks.attempt -= 1

    def finished(self, task_ids: Sequence[int], busy_s: Sequence[float] | None, slot: int, outcome: str) -> None:
        now = time.monotonic()
        for place, task_id in enumerate(task_ids):
            marks = self._marks.pop(task_id, None) or _Marks(now)
            duration = None if busy_s is None else busy_s[place]
            if duration is not None:
                marks.started_at = min(marks.started_at or now, now - duration)
            elif marks.started_at is not None:
                duration = now - marks.started_at
            self._task_event("finished", now, task_id, marks, slot, outcome=outcome, duration_s=duration)

    def retried(self, action: do.RetryTask) -> None:
        marks = self._marks.get(action.task_id)
        if marks is not None:
            self._task_event("retried", time.monotonic(), action.task_id, marks, action.slot, detail=action.text)

    def worker(self, kind: str, slot: int, *, duration_s: float | None = None, detail: str | None = None) -> None:
        self._publish(
            ProgressEvent(
                kind,
                time.monotonic(),
                worker_id=self._worker_ids[slot],
                device=self._devices[slot],
                duration_s=duration_s,
                detail=detail,
            )
        )

    def _task_event(
        self,
        kind: str,
        now: float,
        task_id: int,
        marks: _Marks,
        slot: int,
        *,
        outcome: str | None = None,
        duration_s: float | None = None,
        detail: str | None = None,
    ) -> None:
        self._publish(
            ProgressEvent(
                kind,
                now,
                task_id,
                self._worker_ids[slot] if slot >= 0 else None,
                self._devices[slot] if slot >= 0 else None,
                max(1, marks.attempt),
                outcome,
                marks.queued_at,
                marks.sent_at,
                marks.started_at,
                now if kind == "finished" else None,
                duration_s,
                detail,
            )
        )
