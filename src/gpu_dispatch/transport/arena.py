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

import mmap
import os

from gpu_dispatch.light import dataclass
from gpu_dispatch.transport.copying import copy
from gpu_dispatch.transport.memory import create_memory_file

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from typing import Any

THRESHOLD = 1 << 15
"""Bytes from which the arena is used. Below it, the copies through the socket cost less than the bookkeeping."""
MOST_PIECES = 4096
CONTROL_BYTES = max(MOST_PIECES, mmap.ALLOCATIONGRANULARITY)
FREE, TAKEN = 0, 1
NOTHING = 1 << 62  # larger than any capacity


@dataclass(frozen=True, slots=True)
class Ref:
    """Where a buffer lies, as it travels in a message."""

    piece: int
    offset: int
    capacity: int
    size: int


def create_arena_file(limit: int) -> int:
    """``limit`` is the size of the file, and not of its memory: that comes as it is needed.

    Where so much cannot be had (``ulimit -v``, ``ulimit -f``), it is smaller; at worst there is room for nothing.
    """
    size = max(limit, CONTROL_BYTES)
    while True:
        try:
            fd = create_memory_file("arena", size)
        except OSError:
            if size == CONTROL_BYTES:
                raise
        else:
            try:
                mmap.mmap(fd, 0).close()
                return fd
            except OSError:
                os.close(fd)
                if size == CONTROL_BYTES:
                    raise
        size = max(CONTROL_BYTES, size // 2 // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY)


def capacity_for(size: int) -> int:
    """Rounded up in steps of an eighth to a quarter, so that buffers of similar size use the same pieces."""
    step = max(mmap.ALLOCATIONGRANULARITY, 1 << max(0, size.bit_length() - 3))
    return -(-size // step) * step


class ArenaWriter:
    """For one thread, or under a lock."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, 0)
        self._memory = memoryview(self._map)
        self._fd = os.dup(fd)  # after the mapping, which may fail
        self._limit = len(self._memory)
        self._end = CONTROL_BYTES
        self._pieces: list[tuple[int, int]] = []  # (offset, capacity)
        self._free: dict[int, list[int]] = {}  # by capacity
        self._taken: list[int] = []
        self._unused: list[int] = []  # numbers without memory, left over from joining pieces
        self._hopeless = NOTHING  # pieces of this capacity cannot be joined from what was free when last looked

    def place(self, buffer: memoryview) -> Ref | None:
        """Copy a contiguous buffer of bytes in; ``None`` when there is no room."""
        size = len(buffer)
        capacity = capacity_for(size)
        piece = self._take(capacity)
        if piece is None:
            return None
        offset = self._pieces[piece][0]
        copy(self._memory[offset : offset + size], buffer)
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
        try:
            self._map.close()
        except BufferError:  # a thread that was to help with a copy has not ended; the memory goes when it does
            pass

    def _take(self, capacity: int) -> int | None:
        free = self._free.get(capacity)
        if not free:
            self._collect()
            free = self._free.get(capacity)
        if free:
            return free.pop()
        piece = self._grow(capacity)
        return self._join(capacity) if piece is None else piece

    def _collect(self) -> None:
        """Find the pieces whose readers have let go."""
        count = len(self._pieces)
        if self._map[:count].count(b"\0") == count - len(self._taken):
            return  # none: known without looking at each
        flags, still_taken = self._memory, []
        for piece in self._taken:
            if flags[piece] == FREE:
                self._free.setdefault(self._pieces[piece][1], []).append(piece)
            else:
                still_taken.append(piece)
        self._taken = still_taken
        self._hopeless = NOTHING

    def _grow(self, capacity: int) -> int | None:
        if not self._has_number() or not self._reserve(self._end, capacity):
            return None
        piece = self._number(self._end, capacity)
        self._end += capacity
        return piece

    def _join(self, capacity: int) -> int | None:
        """Make one piece of free neighbours: the buffers are of other sizes now than when the arena was cut up."""
        if capacity >= self._hopeless:
            return None
        run, start, size = self._free_run(capacity)
        if size < capacity:
            if start + size != self._end or not self._reserve(self._end, capacity - size):
                self._hopeless = capacity
                return None
            self._end += capacity - size
            size = capacity
        for piece in run:
            self._free[self._pieces[piece][1]].remove(piece)
        self._unused += run
        piece = self._number(start, capacity)
        rest = size - capacity
        if rest and self._has_number():
            self._free.setdefault(rest, []).append(self._number(start + capacity, rest))
        elif rest:
            self._pieces[piece] = (start, size)
        return piece

    def _reserve(self, offset: int, size: int) -> bool:
        """Get the memory now: if it were only promised, and not there, the first touch would be a SIGBUS."""
        if offset + size > self._limit:
            return False
        try:
            os.posix_fallocate(self._fd, offset, size)
        except (OSError, AttributeError):
            self._limit = self._end  # no more where that came from
            return False
        return True

    def _free_run(self, capacity: int) -> tuple[list[int], int, int]:
        """The first neighbours that are large enough together, else the last ones: (pieces, offset, size)."""
        run: list[int] = []
        start = size = 0
        for offset, own, piece in sorted((*self._pieces[p], p) for pieces in self._free.values() for p in pieces):
            if offset != start + size:
                run, start, size = [], offset, 0
            run.append(piece)
            size += own
            if size >= capacity:
                break
        return run, start, size

    def _has_number(self) -> bool:
        return bool(self._unused) or len(self._pieces) < MOST_PIECES

    def _number(self, offset: int, capacity: int) -> int:
        if self._unused:
            piece = self._unused.pop()
            self._pieces[piece] = (offset, capacity)
            return piece
        self._pieces.append((offset, capacity))
        return len(self._pieces) - 1


class ArenaReader:
    def __init__(self, fd: int) -> None:
        self._map: mmap.mmap | None = mmap.mmap(fd, 0)
        self._flags = memoryview(self._map)[:CONTROL_BYTES]

    def view(self, ref: Ref) -> memoryview:
        """A writable view of what was placed. The piece is the user's until the last view of it is gone."""
        assert self._map is not None
        lease = _lease_type(ref.capacity).from_buffer(self._map, ref.offset)
        lease.flags, lease.piece, lease.pid = self._flags, ref.piece, os.getpid()
        return memoryview(lease).cast("B")[: ref.size]

    def drop(self, ref: Ref) -> None:
        """What was placed is not wanted: its piece is free."""
        self._flags[ref.piece] = FREE

    def close(self) -> None:
        """Views that are still in use keep the mapping; nothing else does."""
        self._map = None
        del self._flags


_lease_types: dict[int, Any] = {}


def _lease_type(capacity: int) -> Any:
    """A ctypes array that frees its piece when it dies: views of it keep it alive, arrays made from them too."""
    known = _lease_types.get(capacity)
    if known is None:
        import ctypes  # here: few workers ever need it, and it takes a while

        # Bound as a default: at the end of the interpreter the name may be gone before the last array is.
        def __del__(self: Any, getpid: Any = os.getpid) -> None:
            if self.pid == getpid():  # a forked child has a copy of this object, and no say in what becomes of it
                self.flags[self.piece] = 0

        known = type("Lease", (ctypes.c_char * capacity,), {"__del__": __del__})
        _lease_types[capacity] = known
    return known
