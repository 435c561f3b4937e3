"""Finished tasks as rows: how they lie on the board of a worker (board.py), and how they travel in a frame.

    frame   number of the first row, how many rows, where their data begins on the board; rows, tags, data
    row     task id, busy seconds, and a word: the result itself if it is a plain number, else where its data ends
    tag     a byte per row: what the word is
    data    pickles, one behind the other

Numbers need no pickling, and thousands of rows are read by a few calls.
"""

from __future__ import annotations

import struct
from _operator import le

from gpu_dispatch.light import dataclass
from gpu_dispatch.transport.frames import BrokenFrame

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# In the machine's own byte order and alignment: both ends are on one machine, and each word is stored at once.
ROW = struct.Struct("Qdq")
FLOAT_ROW = struct.Struct("Qdd")
ROW_BYTES = ROW.size
HEAD = struct.Struct("QQQ")
"""Of a frame: number of its first row, how many rows, and where on the board their data begins."""
INT, FLOAT, VALUE, FAILURE, LARGE = range(5)
"""Tags: a plain number, a pickled value, a pickled Failure; of a large value, where it lies in the arena. That outlives
the worker, as the board does."""


@dataclass(frozen=True, slots=True)
class Rows:
    ids: list[int]
    busy_s: list[float]
    words: memoryview
    tags: bytes
    data: memoryview
    data_start: int
    """Where on the board the data begins: what the words of rows with data count from."""

    @property
    def only_tag(self) -> int | None:
        """The tag of all of them, if it is the same."""
        tags = self.tags
        return tags[0] if tags and tags.count(tags[0]) == len(tags) else None

    def ints(self) -> list[int]:
        return self.words.cast("q")[2::3].tolist()

    def floats(self) -> list[float]:
        return _column_of_floats(self.words, 2)

    def pieces(self) -> Iterator[memoryview]:
        """The data of each, if all have some. Raises BrokenFrame where that makes no sense."""
        ends = self.ints()
        if self.data_start:
            ends = [end - self.data_start for end in ends]
        starts = [0, *ends[:-1]]
        if ends[-1] > len(self.data) or not all(map(le, starts, ends)):
            raise BrokenFrame(f"data was announced that is not there: {len(self.data)} bytes are")
        return map(self.data.__getitem__, map(slice, starts, ends))


def read_rows(count: int, rows: memoryview, tags: memoryview, data: memoryview, data_start: int) -> Rows:
    words = rows[: count * ROW_BYTES]
    ids, busy_s = words.cast("Q")[0::3].tolist(), _column_of_floats(words, 1)
    return Rows(ids, busy_s, words, bytes(tags[:count]), data, data_start)


def _column_of_floats(words: memoryview, column: int) -> list[float]:
    doubles: Any = words.cast("d")  # type checkers think that every view is of ints
    return doubles[column::3].tolist()  # type: ignore[no-any-return]


def read_frame(body: memoryview) -> tuple[int, Rows]:
    """(number of the first row, what it brought). Raises BrokenFrame when it is no such frame."""
    if len(body) < HEAD.size:
        raise BrokenFrame("a frame of results without its head")
    first, count, data_start = HEAD.unpack_from(body)
    tags_at = HEAD.size + count * ROW_BYTES
    if not count or tags_at + count > len(body):
        raise BrokenFrame(f"{count} results were announced in {len(body)} bytes")
    return first, read_rows(count, body[HEAD.size :], body[tags_at:], body[tags_at + count :], data_start)
