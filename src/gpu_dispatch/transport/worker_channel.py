"""The worker's end of its channel: it blocks. One thread reads, any thread may send.

On the bare descriptor: the ``socket`` module would be half of what a worker imports at birth.
"""

from __future__ import annotations

import os
import select
from _thread import allocate_lock

from gpu_dispatch.transport.frames import RECEIVE_BYTES, FrameKind, FrameReader, header
from gpu_dispatch.transport.pickling import dumps, loads

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from typing import Any


class WorkerChannel:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._reader = FrameReader()
        self._arrived = memoryview(bytearray(RECEIVE_BYTES))
        self._lock = allocate_lock()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def send(self, message: object) -> None:
        self.send_frame(FrameKind.MESSAGE, dumps(message, protocol=5))

    def send_frame(self, kind: int, *parts: Any) -> None:
        unsent = [header(kind, sum(map(len, parts))), *parts]
        with self._lock:
            while unsent:
                written = os.writev(self._fd, unsent)
                while unsent and written >= len(unsent[0]):
                    written -= len(unsent.pop(0))
                if written:
                    unsent[0] = memoryview(unsent[0])[written:]

    def has_mail(self) -> bool:
        """Whether ``receive`` would find something to read now."""
        return bool(self._poll.poll(0))

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
