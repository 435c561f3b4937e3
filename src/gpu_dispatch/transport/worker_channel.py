"""The worker's end of its channel: it blocks. One thread reads, any thread may send.

On the bare descriptor: the ``socket`` module would be half of what a worker imports at birth.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from gpu_dispatch.transport.frames import RECEIVE_BYTES, FrameKind, FrameReader, header
from gpu_dispatch.transport.pickling import dumps, loads

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from typing import Any

JOINED_BYTES = 1 << 16
"""Frames up to this size are joined and written at once; larger ones part by part, without a copy."""


class WorkerChannel:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._reader = FrameReader()
        self._arrived = memoryview(bytearray(RECEIVE_BYTES))
        self._lock = allocate_lock()

    def send(self, message: object) -> None:
        self.send_frame(FrameKind.MESSAGE, dumps(message, protocol=5))

    def send_frame(self, kind: int, *parts: Any) -> None:
        size = sum(len(part) for part in parts)
        with self._lock:
            if size <= JOINED_BYTES:
                self._write(b"".join((header(kind, size), *parts)))
                return
            self._write(header(kind, size))
            for part in parts:
                self._write(part)

    def receive(self) -> list[Any] | None:
        """The next messages, waiting for at least one; ``None`` when the parent is gone."""
        while True:
            try:
                size = os.readv(self._fd, (self._arrived,))
            except OSError:
                return None
            if not size:
                return None
            frames = self._reader.feed(self._arrived[:size])
            if frames:
                return [loads(body) for _, body in frames]

    def _write(self, data: Any) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]
