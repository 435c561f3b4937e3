"""Finished tasks on their way to the parent: collected on the board, sent in frames."""

from __future__ import annotations

import threading
import time
from typing import Any

from gpu_dispatch.protocol import Failure, LargeResult
from gpu_dispatch.transport.board import Board
from gpu_dispatch.transport.channel import WorkerChannel
from gpu_dispatch.transport.codec import Large, Packer, failure_entry
from gpu_dispatch.transport.frames import FrameKind

FLUSH_S = 0.004
"""Results wait at most this long for company. Shorter costs a frame more often, longer delays callbacks."""


class Outbox:
    """Two threads use it: the runner adds and flushes, the reader flushes when the parent asks."""

    def __init__(self, channel: WorkerChannel, board: Board, packer: Packer) -> None:
        self._packer = packer
        self._channel = channel
        self._board = board
        self._lock = threading.Lock()
        self.quiet_since = 0.0
        """When the parent last heard from us."""

    def succeed(self, task_id: int, busy_s: float, value: Any) -> None:
        """Raises WillNotPickle when the value cannot travel."""
        with self._lock:
            packed = self._packer.pack((task_id, busy_s, value))
            if isinstance(packed, Large):
                self._flush()
                self._channel.send(LargeResult(packed))
            else:
                self._add(packed)

    def fail(self, task_id: int, busy_s: float, failure: Failure) -> None:
        with self._lock:
            self._add(failure_entry(task_id, busy_s, failure))

    def _add(self, entry: bytes) -> None:
        if self._board.add(entry):
            return
        self._flush()
        if not self._board.add(entry):  # larger than the whole page
            self._channel.send_frame(FrameKind.RESULTS, *self._board.frame_of(entry))
            self._board.sent()

    def flush(self) -> None:
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if self._board.has_entries:
            self._channel.send_frame(FrameKind.RESULTS, *self._board.frame())
            self._board.sent()
        self.quiet_since = time.monotonic()
