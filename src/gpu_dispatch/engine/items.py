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
        for number, start, stop in _pieces(ids):
            size = stop - start
            self._blocks.setdefault(number, []).extend(items[taken : taken + size])
            self._unsettled[number] = self._unsettled.get(number, 0) + size
            taken += size
        self.next_id = ids.stop
        return ids

    def get(self, ids: Sequence[int]) -> list[Any]:
        """The items of tasks that are not settled. Hot."""
        blocks, run = self._blocks, as_run(ids)
        if run is None:
            return [blocks[task_id // BLOCK][task_id % BLOCK] for task_id in ids]
        items: list[Any] = []
        for number, start, stop in _pieces(run):
            items += blocks[number][start:stop]
        return items

    def drop(self, ids: Sequence[int]) -> None:
        """These are settled now. Raises KeyError for one that was before. Hot."""
        run = as_run(ids)
        if run is None:
            for task_id in ids:
                number, place = divmod(task_id, BLOCK)
                self._drop(number, place, place + 1)
        else:
            for number, start, stop in _pieces(run):
                self._drop(number, start, stop)

    def _drop(self, number: int, start: int, stop: int) -> None:
        block = self._blocks[number]
        if block[start] is GONE:
            raise KeyError(number * BLOCK + start)
        block[start:stop] = [GONE] * (stop - start)
        left = self._unsettled[number] = self._unsettled[number] - (stop - start)
        if not left and len(block) == BLOCK:
            del self._blocks[number], self._unsettled[number]

    def __contains__(self, task_id: object) -> bool:
        """Whether that is the id of an unsettled task."""
        if not isinstance(task_id, int) or not 0 <= task_id < self.next_id:
            return False
        block = self._blocks.get(task_id // BLOCK)
        return block is not None and block[task_id % BLOCK] is not GONE


def as_run(ids: Sequence[int]) -> range | None:
    """The same ids as a range, if they are one."""
    if isinstance(ids, range):
        return ids
    if not ids or ids[-1] - ids[0] != len(ids) - 1:
        return None
    run = range(ids[0], ids[-1] + 1)
    return run if list(run) == list(ids) else None


def _pieces(run: range) -> Iterator[tuple[int, int, int]]:
    """(block, from where, to where in it) of what a run has in each block."""
    first, end = run.start, run.stop
    while first < end:
        number, start = divmod(first, BLOCK)
        stop = min(BLOCK, start + end - first)
        yield number, start, stop
        first += stop - start
