"""The items of unsettled tasks, by task id.

Ids are given out one after the other and nearly always come and go in runs, so items lie in blocks of consecutive ids,
and a run is cut out of its block at once. A block goes when all of its tasks are settled: a task that takes for ever
keeps one block, and not all that came after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any

BLOCK = 1024
GONE = object()
"""In place of an item whose task is settled: it may be large, and is let go at once."""


class Items:
    """For one thread."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[Any]] = {}
        self._unsettled: dict[int, int] = {}  # how many in each block
        self.next_id = 0

    def add(self, items: Sequence[Any]) -> range:
        """Returns the ids that they get."""
        ids = range(self.next_id, self.next_id + len(items))
        taken = 0
        for number, _, stop in _pieces(ids):
            block = self._blocks.setdefault(number, [])
            piece = items[taken : taken + stop - len(block)]
            taken += len(piece)
            block += piece
            self._unsettled[number] = self._unsettled.get(number, 0) + len(piece)
        self.next_id = ids.stop
        return ids

    def get(self, ids: Sequence[int]) -> list[Any]:
        """The items of tasks that are not settled. Hot."""
        items: list[Any] = []
        for run in runs_of(ids):
            for number, start, stop in _pieces(run):
                items += self._blocks[number][start:stop]
        return items

    def drop(self, ids: Sequence[int]) -> None:
        """These, none of which was settled before, are settled now. Hot."""
        for run in runs_of(ids):
            for number, start, stop in _pieces(run):
                left = self._unsettled[number] - (stop - start)
                block = self._blocks[number]
                block[start:stop] = [GONE] * (stop - start)
                self._unsettled[number] = left
                if not left and len(block) == BLOCK:
                    del self._blocks[number], self._unsettled[number]

    def __contains__(self, task_id: object) -> bool:
        """Whether that is the id of an unsettled task."""
        if not isinstance(task_id, int) or not 0 <= task_id < self.next_id:
            return False
        block = self._blocks.get(task_id // BLOCK)
        return block is not None and block[task_id % BLOCK] is not GONE


def runs_of(ids: Sequence[int]) -> Iterator[range]:
    """The same ids as runs of consecutive ones, as long as can be found by halving."""
    if isinstance(ids, range):
        yield ids
        return
    start, end = 0, len(ids)
    while start < end:
        first, size = ids[start], end - start
        while ids[start + size - 1] - first != size - 1 or list(ids[start : start + size]) != list(
            range(first, first + size)
        ):
            size = (size + 1) // 2  # of one it is true
        yield range(first, first + size)
        start += size


def _pieces(run: range) -> Iterator[tuple[int, int, int]]:
    """(block, from where, to where in it) of what a run has in each block."""
    first, end = run.start, run.stop
    while first < end:
        number, start = divmod(first, BLOCK)
        stop = min(BLOCK, start + end - first)
        yield number, start, stop
        first += stop - start
