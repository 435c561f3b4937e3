"""Large buffers cross by one copy, through reused pieces of shared memory.

    writer                                         reader
    place(buffer) ── copies into a free piece ──►  view(ref): a writable view of that piece, no copy
         ▲                                              │
         └── the piece is free again ◄── its flag ──────┘ when the last view is garbage collected

One arena per direction and per life of a worker; it ends with that life. The flags live in the arena's first page:
the reader clears a byte, the writer looks at it when it needs room. No message, no lock.

The reader's arrays may be kept by user code as long as it likes. A writer that finds no free piece and has reached
its limit answers ``None``: the buffer then travels inside its message.

The whole arena is one mapping on each side, made for its limit at birth and filled with memory piece by piece: every
mapping of its own would hold a descriptor, and a user who keeps a thousand arrays would run out of them.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any, NamedTuple

from gpu_dispatch.transport.memory import create_memory_file

THRESHOLD = 1 << 15
"""Bytes from which the arena is used. Below it, the copies through the socket cost less than the bookkeeping."""
MOST_PIECES = 4096
CONTROL_BYTES = max(MOST_PIECES, mmap.ALLOCATIONGRANULARITY)
FREE, TAKEN = 0, 1

MADV_POPULATE_WRITE = 23  # from <linux/mman.h>, 5.14: fault the pages in at once, not one by one at the first touch


class Ref(NamedTuple):
    """Where a buffer lies, as it travels in a message."""

    piece: int
    offset: int
    capacity: int
    size: int


def create_arena_file(limit: int = 0) -> int:
    """``limit`` is the size of the file, and not of its memory: that comes as it is needed."""
    return create_memory_file("arena", max(limit, CONTROL_BYTES))


def arena_bytes(workers: int) -> int:
    """The limit of one arena, when ``workers`` workers have two each: a quarter of the machine's memory in all."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        memory = 8 << 30
    return max(64 << 20, min(1 << 30, memory // 4 // (2 * max(1, workers))))


def capacity_for(size: int) -> int:
    """Rounded up in steps of an eighth to a quarter, so that buffers of similar size use the same pieces."""
    step = max(mmap.ALLOCATIONGRANULARITY, 1 << max(0, size.bit_length() - 3))
    return -(-size // step) * step


class ArenaWriter:
    def __init__(self, fd: int) -> None:
        self._fd = os.dup(fd)
        self._map = mmap.mmap(fd, 0)
        self._memory = memoryview(self._map)
        self._limit = len(self._memory)
        self._end = CONTROL_BYTES
        self._pieces: list[tuple[int, int]] = []  # (offset, capacity)
        self._free: dict[int, list[int]] = {}  # by capacity
        self._taken: list[int] = []

    def place(self, buffer: memoryview) -> Ref | None:
        """Copy a contiguous buffer of bytes in; ``None`` when there is no room."""
        size = len(buffer)
        piece = self._take(capacity_for(size))
        if piece is None:
            return None
        offset, capacity = self._pieces[piece]
        self._memory[offset : offset + size] = buffer
        self._memory[piece] = TAKEN
        self._taken.append(piece)
        return Ref(piece, offset, capacity, size)

    def release(self, refs: list[Ref]) -> None:
        """These were placed, but will not be sent after all."""
        for ref in refs:
            self._memory[ref.piece] = FREE

    def close(self) -> None:
        os.close(self._fd)
        self._memory.release()
        self._map.close()

    def _take(self, capacity: int) -> int | None:
        free = self._free.get(capacity)
        if not free:
            self._collect()
            free = self._free.get(capacity)
        if free:
            return free.pop()
        return self._grow(capacity)

    def _collect(self) -> None:
        """Find the pieces whose readers have let go."""
        flags, still_taken = self._memory, []
        for piece in self._taken:
            if flags[piece] == FREE:
                self._free.setdefault(self._pieces[piece][1], []).append(piece)
            else:
                still_taken.append(piece)
        self._taken = still_taken

    def _grow(self, capacity: int) -> int | None:
        if self._end + capacity > self._limit or len(self._pieces) >= MOST_PIECES:
            return None
        try:
            # Reserve it now: memory that is promised and not there would be a SIGBUS at the first touch.
            os.posix_fallocate(self._fd, self._end, capacity)
        except (OSError, AttributeError):
            self._limit = self._end  # no more where that came from
            return None
        _populate(self._map, self._end, capacity)
        self._pieces.append((self._end, capacity))
        self._end += capacity
        return len(self._pieces) - 1


class ArenaReader:
    def __init__(self, fd: int) -> None:
        self._map: mmap.mmap | None = mmap.mmap(fd, 0)
        self._flags = memoryview(self._map)[:CONTROL_BYTES]
        self._seen: set[int] = set()

    def view(self, ref: Ref) -> memoryview:
        """A writable view of what was placed. The piece is the user's until the last view of it is gone."""
        assert self._map is not None
        if ref.piece not in self._seen:
            self._seen.add(ref.piece)
            _populate(self._map, ref.offset, ref.capacity)
        lease = _lease_type(ref.capacity).from_buffer(self._map, ref.offset)
        lease.flags, lease.piece, lease.pid = self._flags, ref.piece, os.getpid()
        return memoryview(lease).cast("B")[: ref.size]

    def close(self) -> None:
        """Views that are still in use keep the mapping; nothing else does."""
        self._map = None
        del self._flags


def _populate(mapped: mmap.mmap, offset: int, size: int) -> None:
    try:
        mapped.madvise(MADV_POPULATE_WRITE, offset, size)
    except (OSError, AttributeError, ValueError):
        pass  # an older kernel, or not Linux: then the pages come one by one


_lease_types: dict[int, Any] = {}


def _lease_type(capacity: int) -> Any:
    """A ctypes array that frees its piece when it dies: views of it keep it alive, arrays made from them too."""
    known = _lease_types.get(capacity)
    if known is None:

        def __del__(self: Any) -> None:
            if self.pid == os.getpid():  # a forked child has a copy of this object, and no say in what becomes of it
                self.flags[self.piece] = FREE

        known = type("Lease", (ctypes.c_char * capacity,), {"__del__": __del__})
        _lease_types[capacity] = known
    return known
