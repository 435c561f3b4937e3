"""Which tasks user code is working on at this moment, in any thread, kept on the board for the parent to see."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from gpu_dispatch.transport.board import Board


class ActiveTasks:
    """A death is charged to these; a time limit counts from each one's instant."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._running: dict[int, float] = {}
        self._lock = threading.Lock()

    def begin(self, task_ids: Iterable[int]) -> float:
        now = time.monotonic()
        with self._lock:
            for task_id in task_ids:
                self._running[task_id] = now
            self._board.start_many(self._running)
        return now

    def end(self, task_ids: Iterable[int]) -> None:
        with self._lock:
            for task_id in task_ids:
                self._running.pop(task_id, None)
            self._board.start_many(self._running)
