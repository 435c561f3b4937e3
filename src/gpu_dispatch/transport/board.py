"""Shared memory in which a worker notes what it runs, and keeps what it has finished but not yet sent.

Sending each tiny result at once would cost a system call per task; keeping results in the worker's own memory would
lose them with the worker. So they are kept *here*: when a worker is killed at any instant, the parent reads what was
finished, knows exactly which task was running, and charges only that one.

    word 0   twice the number of running tasks, plus the number of the list they are in (0 or 1)
    word 2   number of the flush that is being collected
    word 3   how many finished rows there are
    word 8…  two lists; for each running task: since when (monotonic seconds, as a double), and its id
    then     finished tasks: rows, tags, data (see rows.py)

A flush sends the rows as one frame that carries the flush number. After a death, the rows are read only if the parent
has not received a frame with that number: nothing is lost, nothing is told twice.

The parent reads single words while the worker lives, and the rows only when it is dead, so no lock is needed.
"""

from __future__ import annotations

import mmap
import struct
from itertools import islice

from gpu_dispatch.transport.frames import FrameKind
from gpu_dispatch.transport.memory import create_memory_file
from gpu_dispatch.transport.rows import FLOAT, FLOAT_ROW, HEAD, INT, ROW, ROW_BYTES, Rows, read_rows

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

RUNNING, FLUSHES, COUNT, FIRST = 0, 2, 3, 8
SINCE, TASK = FIRST, FIRST + 1
"""Where the only running task is noted."""
MOST_RUNNING = 4096
"""Tasks that can be noted as running at once: a batch, and those in preprocessing."""
MOST_READINGS = 100
LIST_WORDS = 2 * MOST_RUNNING
MOST_ROWS = 4096
DATA_BYTES = 1 << 16
"""How many bytes of pickled results may wait. Results larger than this are sent at once."""
ROWS_AT = 8 * (FIRST + 2 * LIST_WORDS)
TAGS_AT = ROWS_AT + MOST_ROWS * ROW_BYTES
DATA_AT = TAGS_AT + MOST_ROWS
BOARD_BYTES = DATA_AT + DATA_BYTES

NEVER = float("inf")
"""The instant of a task whose clock stands still: it is done, and its result waits to be written."""


def create_board_file() -> int:
    return create_memory_file("board", BOARD_BYTES)


class Board:
    """The worker's side: it writes."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, BOARD_BYTES)
        view = memoryview(self._map)
        self.words = view[:ROWS_AT].cast("Q")
        self.instants = view[:ROWS_AT].cast("d")  # the same words, read as doubles
        self._rows = view[ROWS_AT:TAGS_AT]
        self._tags = view[TAGS_AT:DATA_AT]
        self._data = view[DATA_AT:]
        self._pack_int, self._pack_float = ROW.pack_into, FLOAT_ROW.pack_into  # bound once
        self._count = 0
        self._used = 0  # of the data
        # All tags are this one beforehand. It is what the worker's results usually are, so there is nothing to store.
        self._usual = INT
        self._unusual: int | None = None  # there is one, and it is this

    def start(self, task_id: int, now: float) -> None:
        """Note that this one task runs from now on. (Where one follows another, the runner does it itself.)"""
        self.instants[SINCE] = now  # before the id: a reader must never see a new task with an old instant
        self.words[TASK] = task_id
        self.words[RUNNING] = 2  # one task, in the first list

    def stop_clock(self) -> None:
        """What runs now waits for the parent: its time does not count until the next start."""
        self.instants[FIRST] = NEVER

    def start_many(self, running: Mapping[int, float]) -> None:
        """Note that exactly these tasks run, each since its instant."""
        words, instants = self.words, self.instants
        # Into the list that is not in use, which then takes over in one store: a worker that is killed here has
        # either the old tasks or the new ones running, never none.
        other = 1 - (words[RUNNING] & 1)
        first = place = FIRST + other * LIST_WORDS
        for task_id, since in islice(running.items(), MOST_RUNNING):
            instants[place] = since
            words[place + 1] = task_id
            place += 2
        words[RUNNING] = (place - first) | other

    def rest(self) -> None:
        """Nothing is running."""
        self.words[RUNNING] = 0

    def add_number(self, task_id: int, busy_s: float, value: int | float) -> bool:
        """Keep a result that is a plain number. False when it does not fit. Hot."""
        count = self._count
        try:
            if type(value) is int:
                tag = INT
                self._pack_int(self._rows, count * ROW_BYTES, task_id, busy_s, value)
            else:
                tag = FLOAT
                self._pack_float(self._rows, count * ROW_BYTES, task_id, busy_s, value)
        except struct.error:  # all rows are taken, or the int has more than 64 bits
            return False
        if tag != self._usual:
            self._unusual = self._tags[count] = tag
        self.words[COUNT] = self._count = count + 1  # last: a row counts only when it is whole
        return True

    def add(self, task_id: int, busy_s: float, tag: int, data: bytes) -> bool:
        """Keep a finished row. False when it does not fit: flush, then try again or send it by itself."""
        count, end = self._count, self._used + len(data)
        if end > DATA_BYTES or count == MOST_ROWS:
            return False
        self._data[self._used : end] = data
        ROW.pack_into(self._rows, count * ROW_BYTES, task_id, busy_s, end)
        if tag != self._usual:
            self._unusual = self._tags[count] = tag
        self._used = end
        self.words[COUNT] = self._count = count + 1  # last: a row counts only when it is whole
        return True

    @property
    def has_rows(self) -> bool:
        return self._count > 0

    def frame(self) -> tuple[int, bytes, Any, Any, Any]:
        """Kind and parts of a frame with all rows."""
        count = self._count
        head = HEAD.pack(self.words[FLUSHES], count)
        return FrameKind.RESULTS, head, self._rows[: count * ROW_BYTES], self._tags[:count], self._data[: self._used]

    def frame_of(self, task_id: int, busy_s: float, tag: int, data: bytes) -> tuple[int, bytes, bytes]:
        """The same of one row whose data is too large."""
        row = ROW.pack(task_id, busy_s, len(data))
        return FrameKind.RESULTS, HEAD.pack(self.words[FLUSHES], 1) + row + bytes((tag,)), data

    def sent(self) -> None:
        """The frame is out: begin the next collection."""
        self.words[COUNT] = 0
        self.words[FLUSHES] += 1
        self._used = self._count = 0
        if self._unusual is not None:
            self._usual, self._unusual = self._unusual, None
            self._tags[:] = bytes((self._usual,)) * MOST_ROWS

    def close(self) -> None:
        for view in (self.words, self.instants, self._rows, self._tags, self._data):
            view.release()
        self._map.close()


class BoardReader:
    """The parent's side: it reads."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, BOARD_BYTES)
        view = memoryview(self._map)
        self._words = view[:ROWS_AT].cast("Q")
        self._instants = view[:ROWS_AT].cast("d")
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
        return dict(zip(self._words[first + 1 : end : 2], self._instants[first:end:2], strict=True))

    def note_received(self, flush: int) -> None:
        self._received = flush

    def last_rows(self) -> Rows | None:
        """What a dead worker had finished and not sent. (A wild pointer may have destroyed it.)"""
        count = min(self._words[COUNT], MOST_ROWS)
        if not count or self._words[FLUSHES] <= self._received:
            return None
        rest = memoryview(self._map[ROWS_AT:])
        return read_rows(count, rest, rest[TAGS_AT - ROWS_AT :], rest[DATA_AT - ROWS_AT :])

    def close(self) -> None:
        self._words.release()
        self._instants.release()
        try:
            self._map.close()
        except BufferError:  # another thread is reading it at this very moment; the memory goes when it is done
            pass
