"""What becomes of items on their way to a worker.

    pulled ── Preparing ────► kept as it is, if it is plain data; else its pickle
    sent   ── pack_parcel ──► what a frame carries

To pickle an object of a class may run user code, for which the loop, which sends, must not wait: that is done by the
thread that pulls. Plain data is left to the loop, which pickles a frame of it in one go; that takes less time than to
look at each item beforehand. Lists, tuples and dicts are taken for plain data when the first one is, and until one is
seen that is not; then all of them are pickled by the thread that pulls, until many in a row are plain again.

What will not pickle is one task's failure.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_dispatch.backends.contract import ItemRefused
from gpu_dispatch.light import dataclass
from gpu_dispatch.transport.codec import (
    ATOMS,
    NAMED,
    Loose,
    Packed,
    Packer,
    Serializer,
    Unpicklable,
    WillNotPickle,
    dumps_small,
    pack_together,
    packed_size,
)

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any

PLAIN = ATOMS | {tuple, list, dict}
"""Types of what may be plain data."""
ENOUGH = 1000
"""So many in a row that are plain data make up for one that was not. (What looked like a class may be a number.)"""
PICKLES: frozenset[type] = frozenset((bytes,))


class Preparing:
    """``prepare`` is called by the thread that pulls, ``saw_others`` by the loop as well."""

    def __init__(self, *, main_is_known: bool) -> None:
        self.as_they_are = ATOMS
        self._serialize = Serializer(main_is_known=main_is_known).serialize
        self._plain_in_a_row = 0
        self._enough = 1

    def prepare(self, item: Any) -> bytes | Loose | Unpicklable:
        kept = self._serialize(item)
        if type(item) in PLAIN:
            if not isinstance(kept, bytes) or NAMED in kept:
                self.saw_others()
            else:
                self._plain_in_a_row += 1
                if self._plain_in_a_row >= self._enough:
                    self.as_they_are = PLAIN
        return kept

    def saw_others(self) -> None:
        """A list, tuple or dict is not plain data."""
        self.as_they_are = ATOMS
        self._plain_in_a_row, self._enough = 0, ENOUGH


@dataclass(frozen=True, slots=True)
class Parcel:
    task_ids: Sequence[int]
    """Of those that can travel."""
    payload: tuple[str, Any]
    size: int
    refused: Sequence[ItemRefused] = ()
    all_plain: bool = True
    """There was nothing among them that should have been pickled beforehand."""


def pack_parcel(packer: Packer, task_ids: Sequence[int], items: Sequence[Any]) -> Parcel:
    """Items as they are kept once they have been pulled. Hot."""
    kinds = set(map(type, items))
    if kinds <= PLAIN:
        together = pack_together(items)
        if together is not None:
            return Parcel(task_ids, ("together", together), len(together))
        pickles = dumps_small(items)
        if pickles is None:
            return _pack_each(packer, task_ids, items, all_plain=False)
        return Parcel(task_ids, ("each", pickles), sum(map(len, pickles)))
    if kinds == PICKLES:
        return Parcel(task_ids, ("each", items), sum(map(len, items)))
    return _pack_each(packer, task_ids, items, all_plain=True)


def _pack_each(packer: Packer, task_ids: Sequence[int], items: Sequence[Any], *, all_plain: bool) -> Parcel:
    accepted: list[int] = []
    packed: list[Packed] = []
    refused: list[ItemRefused] = []
    for task_id, item in zip(task_ids, items, strict=True):
        try:
            packed.append(_pack(packer, item))
            accepted.append(task_id)
        except (WillNotPickle, MemoryError) as error:
            why = str(error) or "there is not enough memory"
            refused.append(ItemRefused(task_id, f"the item cannot be sent to a worker. {why}"))
    return Parcel(accepted, ("each", packed), sum(map(packed_size, packed)), refused, all_plain)


def _pack(packer: Packer, item: Any) -> Packed:
    """Raises WillNotPickle, with an explanation."""
    if isinstance(item, bytes):
        return item
    return packer.place(item) if isinstance(item, (Loose, Unpicklable)) else packer.pack(item)
