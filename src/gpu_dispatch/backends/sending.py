"""Packing what workers are to be sent. What will not pickle is one task's failure."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_dispatch.backends.contract import ItemRefused
from gpu_dispatch.transport.codec import Packed, Packer, WillNotPickle

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any


def pack_each(
    packer: Packer, task_ids: Sequence[int], items: Sequence[Any], refused: list[ItemRefused]
) -> tuple[list[int], list[Packed]]:
    """Those that can travel; the others are added to ``refused``."""
    accepted: list[int] = []
    packed: list[Packed] = []
    for task_id, item in zip(task_ids, items, strict=True):
        try:
            packed.append(packer.pack(item))
            accepted.append(task_id)
        except WillNotPickle as error:
            refused.append(ItemRefused(task_id, f"the item cannot be sent to a worker. {error}"))
    return accepted, packed
