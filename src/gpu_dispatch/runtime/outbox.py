"""Finished tasks on their way to the parent: collected on the board, sent in frames."""

from __future__ import annotations

import time
from _thread import allocate_lock

from gpu_dispatch.transport.board import Board
from gpu_dispatch.transport.codec import Large, Packer, large_to_bytes
from gpu_dispatch.transport.pickling import dumps
from gpu_dispatch.transport.rows import FAILURE, LARGE, VALUE
from gpu_dispatch.wire import Failure

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Sender(Protocol):
        """The outgoing half of a channel."""

        def send(self, message: object) -> None: ...

        def send_frame(self, kind: int, *parts: Any) -> None: ...


FLUSH_S = 0.004
"""Results wait at most this long for company (and, behind a short task, for a thread that gets the interpreter's lock).
Shorter costs a frame more often, longer delays callbacks."""
FLUSH_BYTES = 1 << 20
"""... and large ones until there are so many bytes of them. More, and the window is used up while they wait, and the
next one is written to memory that is not in the cache; fewer, and each costs a frame and a wake-up of the parent."""


class Outbox:
    """Several threads use it: the runner adds and flushes, the reader flushes when the parent asks, the flusher while
    the runner is in its next task. Plain numbers the runner adds to the board by itself, without the lock.

    When callbacks are slow the parent stops reading, and whoever writes has to wait. That is not the time of the task
    whose result it is: clocks are stopped before each wait of the runner.
    """

    def __init__(self, channel: Sender, board: Board, packer: Packer) -> None:
        self.stop_clocks: Callable[[], None] = board.stop_clock
        self.resume_clocks: Callable[[], None] = lambda: None  # the next start sets a new instant
        self._pack = packer.pack
        self._channel = channel
        self._board = board
        self._lock = allocate_lock()
        self._large_bytes = 0  # of results that have not been sent
        self.quiet_since = 0.0
        """When the parent last heard from us."""
        self.flush_soon: Callable[[], None] = self.flush
        """While there is more to do. Where there is a thread for it, it is called instead."""

    def succeed(self, task_id: int, busy_s: float, value: Any) -> None:
        """Raises WillNotPickle when the value cannot travel."""
        kind = type(value)
        if not self._lock.acquire(False):
            self._wait_for_lock()
        try:
            if kind is int or kind is float:
                if not self._board.has_room:
                    self._flush_and_clear()
                if self._board.add_number(task_id, busy_s, value):
                    return
            packed = self._pack(value)
            if isinstance(packed, Large):
                self._add(task_id, busy_s, LARGE, large_to_bytes(packed))
                self._large_bytes += packed.size
                if self._large_bytes >= FLUSH_BYTES:
                    self._flush_and_clear()
            else:
                self._add(task_id, busy_s, VALUE, packed)
        finally:
            self._lock.release()

    def fail(self, task_id: int, busy_s: float, failure: Failure) -> None:
        if not self._lock.acquire(False):
            self._wait_for_lock()
        try:
            self._add(task_id, busy_s, FAILURE, dumps(failure, protocol=5))
        finally:
            self._lock.release()

    def _add(self, task_id: int, busy_s: float, tag: int, data: bytes) -> None:
        if self._board.add(task_id, busy_s, tag, data):
            return
        self._flush_and_clear()
        if not self._board.add(task_id, busy_s, tag, data):  # larger than the whole page
            self._send_while_clocks_stand(*self._board.frame_of(task_id, busy_s, tag, data))
            self._board.skip_number()

    def flush(self) -> None:
        """By a thread that runs tasks, when it has none in hand, or starts the clock of the one it has again."""
        if not self._lock.acquire(False):
            self._wait_for_lock()
        try:
            self._flush_and_clear()
        finally:
            self._lock.release()

    def flush_beside(self) -> None:
        """By a thread that runs no tasks: the clocks of those that run meanwhile are none of its business, and rows may
        be added meanwhile."""
        with self._lock:
            self._flush(self._channel.send_frame)

    def _flush_and_clear(self) -> None:
        self._flush(self._send_while_clocks_stand)
        self._board.clear()

    def _flush(self, send: Callable[..., None]) -> None:
        if self._board.has_unsent:
            send(*self._board.frame())
            self._board.sent()
            self._large_bytes = 0
        self.quiet_since = time.monotonic()

    def _send_while_clocks_stand(self, kind: int, *parts: Any) -> None:
        self.stop_clocks()
        self._channel.send_frame(kind, *parts)
        self.resume_clocks()

    def _wait_for_lock(self) -> None:
        self.stop_clocks()
        self._lock.acquire()
        self.resume_clocks()
