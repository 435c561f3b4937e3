"""Shared memory in which a worker notes what it runs, and keeps what it has finished but not yet sent.

Sending each tiny result at once would cost a system call per task; keeping results in the worker's own memory would
lose them with the worker. So they are kept *here*: when a worker is killed at any instant, the parent reads what was
finished, knows exactly which task was running, and charges only that one.

    word 0   twice the number of running tasks, plus the number of the list they are in (0 or 1)
    word 2   number of the first row that lies here
    word 3   where the rows end
    word 8…  two lists; for each running task: since when (monotonic seconds, as a double), and its id
    then     finished tasks: rows, tags, data (see rows.py)

Rows are numbered through the life of the worker, and a frame says which ones it brings. After a death, those are read
here that the parent has not received: nothing is lost, nothing is told twice.

Threads of the worker: one adds rows, with or without the lock of the outbox; or several do, all with it. Any may send
them meanwhile, since a row that was added does not change. Only who adds may clear the board when all of them are sent.

The parent reads single words while the worker lives, and the rows only when it is dead, so no lock is needed.
"""

from __future__ import annotations

import mmap
import struct
from itertools import islice

from gpu_dispatch.transport.frames import FrameKind
from gpu_dispatch.transport.memory import create_memory_file
from gpu_dispatch.transport.rows import FLOAT, FLOAT_ROW, HEAD, INT, ROW, ROW_BYTES, VALUE, Rows, read_rows

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

RUNNING, FIRST_ROW, END, FIRST = 0, 2, 3, 8
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

PACK_ROW = ROW.pack_into  # bound once
NEVER = float("inf")
"""The instant of a task whose clock stands still: it is done, and its result waits to be written."""


def create_board_file() -> int:
    return create_memory_file("board", BOARD_BYTES)


class NoNumber:
    """No result is of this type: see ``Board.plain``."""


class Board:
    """The worker's side: it writes."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, BOARD_BYTES)
        view = memoryview(self._map)
        self.words = view[:ROWS_AT].cast("Q")
        self.instants = view[:ROWS_AT].cast("d")  # the same words, read as doubles
        self.rows = view[ROWS_AT:TAGS_AT]
        self._tags = view[TAGS_AT:DATA_AT]
        self._data = view[DATA_AT:]
        self._data_end = 0
        self._sent = self._framed = (0, 0)  # up to where in the rows and in the data
        # All tags are this one beforehand. It is what the worker's results usually are, so there is nothing to store.
        self._usual = INT
        self._has_unusual = False
        self.plain: type = int
        """Results of this type need no tag: who adds may store a row of one with ``pack``."""
        self.pack: Callable[..., None] = ROW.pack_into

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

    def cursor(self) -> tuple[int, type, Callable[..., None]]:
        """For the runner, which adds plain numbers by itself: where the rows end, ``plain`` and ``pack``. They stay so
        until somebody else adds something, or clears the board."""
        return self.words[END], self.plain, self.pack

    def add_number(self, task_id: int, busy_s: float, value: int | float) -> bool:
        """Keep a result that is a plain number. False when there is no room, or the int has more than 64 bits."""
        end = self.words[END]
        is_int = type(value) is int
        try:
            (ROW if is_int else FLOAT_ROW).pack_into(self.rows, end, task_id, busy_s, value)
        except struct.error:
            return False
        tag = INT if is_int else FLOAT
        if tag != self._usual:
            self._note_tag(end, tag)
        self.words[END] = end + ROW_BYTES  # last: a row counts only when it is whole
        return True

    def add(self, task_id: int, busy_s: float, tag: int, data: bytes) -> bool:
        """Keep a finished row. False when it does not fit: flush, then try again or send it by itself."""
        words, data_start = self.words, self._data_end
        end, data_end = words[END], data_start + len(data)
        if data_end > DATA_BYTES or end >= len(self.rows):
            return False
        self._map[DATA_AT + data_start : DATA_AT + data_end] = data
        PACK_ROW(self.rows, end, task_id, busy_s, data_end)
        self._data_end = data_end
        if tag != self._usual:
            self._note_tag(end, tag)
        words[END] = end + ROW_BYTES  # last: a row counts only when it is whole
        return True

    def _note_tag(self, end: int, tag: int) -> None:
        self._tags[end // ROW_BYTES] = tag
        self._has_unusual = True

    @property
    def has_room(self) -> bool:
        """For another row; its data is another matter."""
        return self.words[END] < len(self.rows)

    @property
    def has_unsent(self) -> bool:
        return self.words[END] > self._sent[0]

    def frame(self) -> tuple[int, bytes, Any, Any, Any]:
        """Kind and parts of a frame with all rows that were not sent."""
        (start, data_start), end, data_end = self._sent, self.words[END], self._data_end
        self._framed = end, data_end
        first, after = start // ROW_BYTES, end // ROW_BYTES
        head = HEAD.pack(self.words[FIRST_ROW] + first, after - first, data_start)
        rows, tags, data = self.rows[start:end], self._tags[first:after], self._data[data_start:data_end]
        return FrameKind.RESULTS, head, rows, tags, data

    def sent(self) -> None:
        """The frame is out."""
        self._sent = self._framed

    def clear(self) -> None:
        """By who adds, when all is sent: begin at the beginning again."""
        count = self.words[END] // ROW_BYTES
        if not count:
            return
        self.words[END] = 0  # first: numbers must never say that rows were not received which were
        self.words[FIRST_ROW] += count
        self._data_end = 0
        self._sent = self._framed = (0, 0)
        if self._has_unusual:
            self._has_unusual = False
            self._usual = self._tags[count - 1]
            self._tags[:] = bytes((self._usual,)) * MOST_ROWS
            self.plain = {INT: int, FLOAT: float}.get(self._usual, NoNumber)
            self.pack = FLOAT_ROW.pack_into if self._usual == FLOAT else ROW.pack_into

    def frame_of(self, task_id: int, busy_s: float, tag: int, data: bytes) -> tuple[int, bytes, bytes]:
        """A frame of one row, whose data is too large for the board. When it is out, call ``skip_number``."""
        row = ROW.pack(task_id, busy_s, len(data))
        return FrameKind.RESULTS, HEAD.pack(self.words[FIRST_ROW], 1, 0) + row + bytes((tag,)), data

    def skip_number(self) -> None:
        """A row that never was on the (empty) board had the next number."""
        self.words[FIRST_ROW] += 1

    def close(self) -> None:
        for view in (self.words, self.instants, self.rows, self._tags, self._data):
            view.release()
        self._map.close()


class BoardReader:
    """The parent's side: it reads."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, BOARD_BYTES)
        view = memoryview(self._map)
        self._words = view[:ROWS_AT].cast("Q")
        self._instants = view[:ROWS_AT].cast("d")
        self._received = 0  # all rows before this number

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

    def note_received(self, first: int, count: int) -> None:
        """A frame has come, with so many rows from this number on."""
        self._received = first + count

    def last_rows(self) -> Rows | None:
        """What a dead worker had finished and not sent. (A wild pointer may have destroyed it.)"""
        count = min(self._words[END] // ROW_BYTES, MOST_ROWS)
        received = max(0, self._received - self._words[FIRST_ROW])
        if received >= count:
            return None
        rows = memoryview(self._map[ROWS_AT : ROWS_AT + count * ROW_BYTES])
        tags = memoryview(self._map[TAGS_AT : TAGS_AT + count])
        data_start = 0
        for row in range(received - 1, -1, -1):  # behind the data of the last one that was received
            if tags[row] >= VALUE:
                data_start = ROW.unpack_from(rows, row * ROW_BYTES)[2]
                break
        data = memoryview(self._map[DATA_AT:])[min(max(0, data_start), DATA_BYTES) :]
        return read_rows(count - received, rows[received * ROW_BYTES :], tags[received:], data, data_start)

    def close(self) -> None:
        self._words.release()
        self._instants.release()
        try:
            self._map.close()
        except BufferError:  # another thread is reading it at this very moment; the memory goes when it is done
            pass
