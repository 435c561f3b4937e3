"""The parent's end of a private duplex channel: it never blocks.

It writes what the socket takes and keeps the rest (two ends that both block on big frames deadlock).
The worker's end (worker_channel.py) does block: a parent that reads slowly slows the worker down.
"""

from __future__ import annotations

from collections import deque

from gpu_dispatch.transport.frames import RECEIVE_BYTES, FrameKind, FrameReader, header
from gpu_dispatch.transport.pickling import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
else:
    import _socket as socket  # the C half: the module itself makes enums of it all, which takes a new parent a while

RECEIVE_ROUNDS = 16
"""At most this many calls before the other workers get their turn."""
NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
"""Scripts that want to end with their reader set SIGPIPE to its default; a worker that just died must not end them."""


def channel_pair() -> tuple[socket.socket, socket.socket]:
    """(parent's end, worker's end)."""
    parent, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    parent.setblocking(False)
    return parent, worker


def encode(message: object) -> bytes:
    return dumps(message, protocol=5)


class Channel:
    """The parent's end."""

    __slots__ = ("_arrived", "_backlog", "_reader", "_socket", "closed")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._reader = FrameReader()
        self._arrived = memoryview(bytearray(RECEIVE_BYTES))
        self._backlog: deque[memoryview] = deque()
        self.closed = False

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def has_backlog(self) -> bool:
        return bool(self._backlog)

    def send(self, message: object) -> None:
        body = encode(message)
        self._backlog.append(memoryview(header(FrameKind.MESSAGE, len(body)) + body))
        self.flush()

    def flush(self) -> None:
        """Write as much as the socket takes now. A peer that is gone shows itself by its death, not here."""
        backlog = self._backlog
        while backlog and not self.closed:
            part = backlog[0]
            try:
                written = self._socket.send(part, NO_SIGNAL)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                backlog.clear()
                return
            if written == len(part):
                backlog.popleft()
            else:
                backlog[0] = part[written:]

    def receive(self) -> tuple[list[tuple[int, memoryview]], bool]:
        """(complete frames, whether the other end is still open)."""
        frames: list[tuple[int, memoryview]] = []
        for _ in range(RECEIVE_ROUNDS):
            try:
                size = self._socket.recv_into(self._arrived)
            except (BlockingIOError, InterruptedError):
                return frames, True
            except OSError:
                return frames, False
            if not size:
                return frames, False
            frames += self._reader.feed(self._arrived[:size])
            if size < RECEIVE_BYTES:
                break
        return frames, True

    def close(self) -> None:
        self.closed = True
        self._backlog.clear()
        self._socket.close()
