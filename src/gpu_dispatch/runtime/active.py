"""Which tasks user code is working on at this moment, in any thread, kept on the board for the parent to see."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from gpu_dispatch.transport.board import NEVER, Board


class ActiveTasks:
    """A death is charged to these; a time limit counts from each one's instant."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._running: dict[int, float] = {}
        self._lock = threading.Lock()
        self._waiting = 0
        self._stopped_at = 0.0

    def begin(self, task_ids: Iterable[int]) -> float:
        now = time.monotonic()
        with self._lock:
            for task_id in task_ids:
                self._running[task_id] = now
            self._show()
        return now

    def end(self, task_ids: Iterable[int]) -> None:
        with self._lock:
            for task_id in task_ids:
                self._running.pop(task_id, None)
            self._show()

    def blame(self, task_ids: Iterable[int]) -> None:
        """The process is about to end on account of these: nobody else is to be charged with it."""
        self._lock.acquire()  # for ever: what other threads do from now on must not be seen
        now = time.monotonic()
        self._board.start_many(dict.fromkeys(task_ids, now))

    def stop_clocks(self) -> None:
        """A thread waits for the parent to read: until ``resume_clocks``, nobody's time counts."""
        with self._lock:
            self._waiting += 1
            if self._waiting == 1:
                self._stopped_at = time.monotonic()
            self._show()

    def resume_clocks(self) -> None:
        with self._lock:
            self._waiting -= 1
            if not self._waiting:
                waited_s = time.monotonic() - self._stopped_at
                for task_id, since in self._running.items():
                    self._running[task_id] = since + min(waited_s, max(0.0, self._stopped_at + waited_s - since))
            self._show()

    def _show(self) -> None:
        self._board.start_many(dict.fromkeys(self._running, NEVER) if self._waiting else self._running)
