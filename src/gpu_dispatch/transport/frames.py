"""How frames look on a stream socket: a length, a kind, then that many bytes."""

from __future__ import annotations

import struct

HEADER = struct.Struct("<QB")

RECEIVE_BYTES = 1 << 18
"""Per system call. Larger means fewer calls for large results, at the price of memory held per channel: a buffer of
this size is kept, because to allocate and shrink one for every call takes four times as long as the call."""
MOST_BYTES = 1 << 40
"""A length above this is not a frame but garbage: somebody wrote into our socket."""


class FrameKind:
    """Plain numbers: an enum would be one more thing to import at the birth of a worker."""

    MESSAGE = 1
    """A pickled message of ``protocol``."""
    RESULTS = 2
    """Finished tasks: see rows.py."""


class BrokenFrame(Exception):
    """What arrived cannot be a frame of ours; the channel is of no more use."""


def header(kind: int, size: int) -> bytes:
    return HEADER.pack(size, kind)


class FrameReader:
    """Cuts a stream of bytes into frames. Memory follows what has arrived, not what was announced."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes | memoryview) -> list[tuple[int, memoryview]]:
        """Add what arrived; get the frames that are complete now."""
        buffer = self._buffer
        buffer += data
        frames: list[tuple[int, memoryview]] = []
        at, size = 0, len(buffer)
        while size - at >= HEADER.size:
            length, kind = HEADER.unpack_from(buffer, at)
            if length > MOST_BYTES or kind not in (1, 2):
                raise BrokenFrame(f"a frame of kind {kind} and {length} bytes was announced")
            end = at + HEADER.size + length
            if end > size:
                break
            frames.append((kind, memoryview(bytes(memoryview(buffer)[at + HEADER.size : end]))))
            at = end
        if at:
            del buffer[:at]
        return frames
