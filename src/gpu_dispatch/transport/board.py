"""Shared memory in which a worker notes what it runs, and keeps what it has finished but not yet sent.

Sending each tiny result at once would cost a system call per task; keeping results in the worker's own memory would
lose them with the worker. So they are kept *here*: when a worker is killed at any instant, the parent reads what was
finished, knows exactly which task was running, and charges only that one.

    word 0   how many tasks are running (0: none)
    word 2   number of the flush that is being collected
    word 3   how many finished entries the page holds
    word 8…  for each running task: its id, and since when (monotonic seconds, as a double)
    page     entries, one pickle each: (task_id, busy_s, value), or (task_id, busy_s, None, Failure)

A flush sends the page's entries as one RESULTS frame that carries the flush number. After a death, the page is read
only if the parent has not received a frame with that number: nothing is lost, nothing is told twice.

The parent reads single words while the worker lives, and the page only when it is dead, so no lock is needed.
"""

from __future__ import annotations

import io
import mmap
import pickletools
import struct
from collections.abc import Mapping
from itertools import islice

from gpu_dispatch.transport.memory import create_memory_file

RUNNING, FLUSH, COUNT, FIRST = 0, 2, 3, 8
MOST_RUNNING = 4096
"""Tasks that can be noted as running at once: a batch, and those in preprocessing."""
PAGE_AT = 8 * (FIRST + 2 * MOST_RUNNING)
PAGE_BYTES = 1 << 16
"""How many bytes of finished results may wait. Results larger than this are sent at once."""

FLUSH_HEADER = struct.Struct("<QI")  # flush number, number of entries; then the end of each entry as uint32


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
        self._ends: list[int] = []
        self._used = 0

    def start(self, task_id: int, now: float) -> None:
        """Note that this one task runs from now on. Hot: called once per task."""
        words = self._words
        self._instants[FIRST + 1] = now  # before the id: a reader must never see a new task with an old instant
        words[FIRST] = task_id
        words[RUNNING] = 1

    def start_many(self, running: Mapping[int, float]) -> None:
        """Note that exactly these tasks run, each since its instant."""
        words, instants = self._words, self._instants
        words[RUNNING] = 0  # never let a half-written list be believed
        place = FIRST
        for task_id, since in islice(running.items(), MOST_RUNNING):
            instants[place + 1] = since
            words[place] = task_id
            place += 2
        words[RUNNING] = (place - FIRST) // 2

    def rest(self) -> None:
        """Nothing is running."""
        self._words[RUNNING] = 0

    def add(self, entry: bytes) -> bool:
        """Keep a finished entry. False when it does not fit: flush, then try again or send it by itself."""
        end = self._used + len(entry)
        if end > PAGE_BYTES:
            return False
        self._page[self._used : end] = entry
        self._used = end
        self._ends.append(end)
        self._words[COUNT] = len(self._ends)  # last: an entry counts only when it is whole
        return True

    @property
    def has_entries(self) -> bool:
        return bool(self._ends)

    def frame(self) -> tuple[bytes, memoryview]:
        """The parts of a RESULTS frame with all entries."""
        ends = self._ends
        head = FLUSH_HEADER.pack(self._words[FLUSH], len(ends)) + struct.pack(f"<{len(ends)}I", *ends)
        return head, self._page[: self._used]

    def frame_of(self, entry: bytes) -> tuple[bytes, bytes]:
        """The parts of a RESULTS frame with one entry that is too large for the page."""
        return FLUSH_HEADER.pack(self._words[FLUSH], 0), entry

    def sent(self) -> None:
        """The frame is out: begin the next collection."""
        self._words[COUNT] = 0
        self._words[FLUSH] += 1
        self._ends.clear()
        self._used = 0


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
        writing at this moment."""
        reading = self._read_running()
        while True:
            again = self._read_running()
            if again == reading:
                return again
            reading = again

    def oldest(self) -> tuple[tuple[int, ...], float | None]:
        """Those that have been running longest, and since when. A batch shares one instant."""
        running = self.running()
        if not running:
            return (), None
        since = min(running.values())
        return tuple(task_id for task_id, instant in running.items() if instant == since), since

    def _read_running(self) -> dict[int, float]:
        end = FIRST + 2 * min(self._words[RUNNING], MOST_RUNNING)
        return dict(zip(self._words[FIRST:end:2], self._instants[FIRST + 1 : end : 2], strict=True))

    def note_received(self, flush: int) -> None:
        self._received = flush

    def last_entries(self) -> list[memoryview]:
        """What a dead worker had finished and not sent."""
        count = self._words[COUNT]
        if not count or self._words[FLUSH] <= self._received:
            return []
        page = io.BytesIO(self._map[PAGE_AT:])
        entries: list[memoryview] = []
        for _ in range(count):
            start = page.tell()
            for _opcode in pickletools.genops(page):  # finds the end of a pickle without executing it
                pass
            entries.append(page.getbuffer()[start : page.tell()])
        return entries

    def close(self) -> None:
        self._words.release()
        self._instants.release()


def split_frame(frame: memoryview) -> tuple[int, list[memoryview]]:
    """(flush number, the entries) of a RESULTS frame."""
    flush, count = FLUSH_HEADER.unpack_from(frame)
    if not count:
        return flush, [frame[FLUSH_HEADER.size :]]
    at = FLUSH_HEADER.size
    ends = struct.unpack_from(f"<{count}I", frame, at)
    body = frame[at + 4 * count :]
    entries, start = [], 0
    for end in ends:
        entries.append(body[start:end])
        start = end
    return flush, entries
