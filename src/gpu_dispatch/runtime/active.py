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
        self._thread_of: dict[int, int] = {}
        self._waiting: dict[int, float] = {}  # threads that wait for the parent to read, and since when
        self._lock = threading.Lock()
        self._is_closed = False

    def begin(self, task_ids: Iterable[int]) -> float:
        now, thread = time.monotonic(), threading.get_ident()
        with self._lock:
            for task_id in task_ids:
                self._running[task_id] = now
                self._thread_of[task_id] = thread
            self._show()
        return now

    def end(self, task_ids: Iterable[int]) -> None:
        with self._lock:
            for task_id in task_ids:
                self._running.pop(task_id, None)
                self._thread_of.pop(task_id, None)
            self._show()

    def blame(self, task_ids: Iterable[int]) -> None:
        """The process is about to end on account of these: nobody else is to be charged with it, whatever other
        threads do from now on."""
        with self._lock:
            self._is_closed = True
            self._board.start_many(dict.fromkeys(task_ids, time.monotonic()))

    def stop_clocks(self) -> None:
        """This thread waits for the parent to read: until ``resume_clocks`` the time of its tasks does not count.

        That of others does: one of them may be what everybody is waiting for.
        """
        thread = threading.get_ident()
        with self._lock:
            if thread in self._thread_of.values():
                self._waiting[thread] = time.monotonic()
                self._show()

    def resume_clocks(self) -> None:
        thread = threading.get_ident()
        with self._lock:
            stopped_at = self._waiting.pop(thread, None)
            if stopped_at is None:
                return
            now = time.monotonic()
            for task_id, since in self._running.items():
                if self._thread_of[task_id] == thread:
                    self._running[task_id] = since + now - max(stopped_at, since)
            self._show()

    def _show(self) -> None:
        if self._is_closed:
            return
        if not self._waiting:
            self._board.start_many(self._running)
            return
        waiting, thread_of = self._waiting, self._thread_of
        self._board.start_many({t: NEVER if thread_of[t] in waiting else s for t, s in self._running.items()})
