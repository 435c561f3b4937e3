"""Shared memory in which a worker notes what it runs, and keeps what it has finished but not yet sent.

Sending each tiny result at once would cost a system call per task; keeping results in the worker's own memory would
lose them with the worker. So they are kept *here*: when a worker is killed at any instant, the parent reads what was
finished, knows exactly which task was running, and charges only that one.

    word 0   twice the number of running tasks, plus the number of the list they are in (0 or 1)
    word 2   number of the flush that is being collected
    word 3   how many finished records the page holds
    word 8…  two lists; for each running task: its id, and since when (monotonic seconds, as a double)
    page     records, each: tag, length, task id, busy seconds, then that many bytes

A flush sends the page's records as one frame that carries the flush number. After a death, the page is read only if
the parent has not received a frame with that number: nothing is lost, nothing is told twice.

The parent reads single words while the worker lives, and the page only when it is dead, so no lock is needed.
"""

from __future__ import annotations

import mmap
import struct
from itertools import islice

from gpu_dispatch.transport.frames import BrokenFrame, FrameKind
from gpu_dispatch.transport.memory import create_memory_file
from gpu_dispatch.transport.pickling import dumps

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Record = tuple[int, float, int, Any]
    """(task id, busy seconds, tag, bytes or number)"""

RUNNING, FLUSHES, COUNT, FIRST = 0, 2, 3, 8
MOST_RUNNING = 4096
"""Tasks that can be noted as running at once: a batch, and those in preprocessing."""
MOST_READINGS = 100
LIST_WORDS = 2 * MOST_RUNNING
PAGE_AT = 8 * (FIRST + 2 * LIST_WORDS)
PAGE_BYTES = 1 << 16
"""How many bytes of finished results may wait. Results larger than this are sent at once."""

FLUSH = struct.Struct("<Q")  # the flush number, at the head of every frame with results
RECORD = struct.Struct("<BIQd")  # tag, length of what follows, task id, busy seconds
INT_RECORD = struct.Struct("<BIQdq")
FLOAT_RECORD = struct.Struct("<BIQdd")
VALUE, FAILURE, INT, FLOAT, LARGE = range(5)
"""Tags: a pickled value, a pickled Failure; numbers are stored as they are: pickling costs more than they do. Of a
large value, where it lies in the arena, which outlives the worker as this page does."""

NEVER = float("inf")
"""The instant of a task whose clock stands still: it is done, and its result waits to be written."""


def create_board_file() -> int:
    return create_memory_file("board", PAGE_AT + PAGE_BYTES)


class Board:
    """The worker's side: it writes."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, PAGE_AT + PAGE_BYTES)
        view = memoryview(self._map)
        self._words = view[:PAGE_AT].cast("Q")
        self._instants = view[:PAGE_AT].cast("d")  # the same words, read as doubles
        self._page = view[PAGE_AT:]
        self._used = 0
        self._count = 0
        # What is on the page as lists, as long as it is all atoms: one pickle of lists opens ten times faster.
        self._atoms: tuple[list[int], list[float], list[Any]] | None = ([], [], [])

    def start(self, task_id: int, now: float) -> None:
        """Note that this one task runs from now on. Hot: called once per task."""
        words = self._words
        self._instants[FIRST + 1] = now  # before the id: a reader must never see a new task with an old instant
        words[FIRST] = task_id
        words[RUNNING] = 2  # one task, in the first list

    def stop_clock(self) -> None:
        """What runs now waits for the parent: its time does not count until the next start."""
        self._instants[FIRST + 1] = NEVER

    def start_many(self, running: Mapping[int, float]) -> None:
        """Note that exactly these tasks run, each since its instant."""
        words, instants = self._words, self._instants
        # Into the list that is not in use, which then takes over in one store: a worker that is killed here has
        # either the old tasks or the new ones running, never none.
        other = 1 - (words[RUNNING] & 1)
        first = place = FIRST + other * LIST_WORDS
        for task_id, since in islice(running.items(), MOST_RUNNING):
            instants[place + 1] = since
            words[place] = task_id
            place += 2
        words[RUNNING] = (place - first) | other

    def rest(self) -> None:
        """Nothing is running."""
        self._words[RUNNING] = 0

    def add_number(self, task_id: int, busy_s: float, value: int | float) -> bool:
        """Keep a result that is a plain number. False when it does not fit. Hot."""
        used = self._used
        try:
            if type(value) is int:
                INT_RECORD.pack_into(self._page, used, INT, 8, task_id, busy_s, value)
            else:
                FLOAT_RECORD.pack_into(self._page, used, FLOAT, 8, task_id, busy_s, value)
        except struct.error:  # the page is full, or the int has more than 64 bits
            return False
        self._used = used + INT_RECORD.size  # a float takes as much
        self._count = count = self._count + 1
        self._words[COUNT] = count  # last: a record counts only when it is whole
        if self._atoms is not None:
            ids, busy, values = self._atoms
            ids.append(task_id)
            busy.append(busy_s)
            values.append(value)
        return True

    def add(self, task_id: int, busy_s: float, tag: int, data: bytes) -> bool:
        """Keep a finished record. False when it does not fit: flush, then try again or send it by itself."""
        start = self._used + RECORD.size
        end = start + len(data)
        if end > PAGE_BYTES:
            return False
        RECORD.pack_into(self._page, self._used, tag, len(data), task_id, busy_s)
        self._page[start:end] = data
        self._commit(end)
        self._atoms = None
        return True

    def _commit(self, used: int) -> None:
        self._used = used
        self._count += 1
        self._words[COUNT] = self._count  # last: a record counts only when it is whole

    @property
    def has_records(self) -> bool:
        return self._count > 0

    def frame(self) -> tuple[int, bytes, Any]:
        """Kind and parts of a frame with all that is on the page."""
        number = FLUSH.pack(self._words[FLUSHES])
        if self._atoms is not None:
            return FrameKind.ATOMS, number, dumps(self._atoms, protocol=5)
        return FrameKind.RECORDS, number, self._page[: self._used]

    def frame_of(self, task_id: int, busy_s: float, tag: int, data: bytes) -> tuple[int, bytes, bytes]:
        """The same of one record that is too large for the page."""
        head = FLUSH.pack(self._words[FLUSHES]) + RECORD.pack(tag, len(data), task_id, busy_s)
        return FrameKind.RECORDS, head, data

    def sent(self) -> None:
        """The frame is out: begin the next collection."""
        self._words[COUNT] = 0
        self._words[FLUSHES] += 1
        self._used = self._count = 0
        self._atoms = ([], [], [])

    def close(self) -> None:
        for view in (self._words, self._instants, self._page):
            view.release()
        self._map.close()


class BoardReader:
    """The parent's side: it reads."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, PAGE_AT + PAGE_BYTES)
        view = memoryview(self._map)
        self._words = view[:PAGE_AT].cast("Q")
        self._instants = view[:PAGE_AT].cast("d")
        self._received = -1

    def running(self) -> dict[int, float]:
        """The running tasks, each with the instant it began. Read until two readings agree: the worker may be
        writing at this moment. One that goes through tasks faster than we read gives no two that agree."""
        reading = self._read_running()
        for _ in range(MOST_READINGS):
            again = self._read_running()
            if again == reading:
                break
            reading = again
        return reading

    def oldest(self) -> tuple[tuple[int, ...], float | None]:
        """Those that have been running longest, and since when. A batch shares one instant."""
        running = self.running()
        if not running:
            return (), None
        since = min(running.values())
        return tuple(task_id for task_id, instant in running.items() if instant == since), since

    def _read_running(self) -> dict[int, float]:
        running = self._words[RUNNING]
        first = FIRST + (running & 1) * LIST_WORDS
        end = first + min(running & ~1, LIST_WORDS)
        return dict(zip(self._words[first:end:2], self._instants[first + 1 : end : 2], strict=True))

    def note_received(self, flush: int) -> None:
        self._received = flush

    def last_records(self) -> list[Record]:
        """What a dead worker had finished and not sent. A wild pointer may have destroyed the page: as much of it as
        can be read."""
        count = self._words[COUNT]
        if not count or self._words[FLUSHES] <= self._received:
            return []
        records: list[Record] = []
        try:
            read_records(memoryview(self._map[PAGE_AT:]), count, records)
        except BrokenFrame:
            pass
        return records

    def close(self) -> None:
        self._words.release()
        self._instants.release()
        try:
            self._map.close()
        except BufferError:  # another thread is reading it at this very moment; the memory goes when it is done
            pass


def read_records(page: memoryview, most: int | None = None, records: list[Record] | None = None) -> list[Record]:
    """The records of a page, or of a frame (after its flush number). Raises BrokenFrame where they make no sense."""
    records = [] if records is None else records
    at, size = 0, len(page)
    while at < size and (most is None or len(records) < most):
        try:
            tag, length, task_id, busy_s = RECORD.unpack_from(page, at)
            start = at + RECORD.size
            at = start + length
            data: Any = page[start:at]
            if tag == INT:
                (data,) = _INT_VALUE.unpack(data)
            elif tag == FLOAT:
                (data,) = _FLOAT_VALUE.unpack(data)
        except struct.error as error:
            raise BrokenFrame(f"a record is cut short: {error}") from None
        if at > size or tag > LARGE:
            raise BrokenFrame(f"a record of kind {tag} and {length} bytes was announced")
        records.append((task_id, busy_s, tag, data))
    return records


_INT_VALUE = struct.Struct("<q")
_FLOAT_VALUE = struct.Struct("<d")
