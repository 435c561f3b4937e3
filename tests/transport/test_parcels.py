"""What a frame carries of items that were pulled, serialized, and are to be sent."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy
import pytest

from gpu_dispatch.backends.sending import ENOUGH, PLAIN, Parcel, Preparing, pack_parcel
from gpu_dispatch.transport.arena import ArenaReader, ArenaWriter
from gpu_dispatch.transport.codec import ATOMS, PACKED, Large, Packer, unpack
from gpu_dispatch.transport.pickling import loads

Arena = tuple[ArenaWriter, ArenaReader]
TAGS = ["a"]
LARGE = numpy.arange(100_000, dtype=numpy.float32)


class Point(NamedTuple):
    x: int
    y: int


def kept(*items: Any) -> list[Any]:
    """As the feeder keeps them."""
    preparing = Preparing(main_is_known=True)
    return [item if type(item) in preparing.as_they_are else preparing.prepare(item) for item in items]


def opened(parcel: Parcel, reader: ArenaReader) -> list[Any]:
    form, data = parcel.payload
    if form == "together":
        return loads(data)
    return [unpack(part, reader) if type(part) in PACKED else part for part in data]


def test_atoms_go_in_one_pickle(arena: Arena) -> None:
    parcel = pack_parcel(Packer(arena[0]), range(3), kept(1, "x", None))
    assert parcel.payload[0] == "together"
    assert opened(parcel, arena[1]) == [1, "x", None]


@pytest.mark.parametrize("items", [[{"tags": TAGS}, {"tags": TAGS}], [TAGS, TAGS]])
@pytest.mark.parametrize("beforehand", [False, True])
def test_everything_else_in_its_own_even_if_two_share_something(
    arena: Arena, items: list[Any], beforehand: bool
) -> None:
    parcel = pack_parcel(Packer(arena[0]), range(2), kept(*items) if beforehand else items)
    form, pickles = parcel.payload
    assert form == "each"
    assert len(pickles) == 2
    assert opened(parcel, arena[1]) == items


def test_a_mixture_keeps_its_order_and_loses_only_what_will_not_pickle(arena: Arena) -> None:
    items = kept(7, [1, 2], threading.Lock(), LARGE, "x" * 100_000, b"y" * 100_000, "short")
    parcel = pack_parcel(Packer(arena[0]), [10, 11, 12, 13, 14, 15, 16], items)

    assert parcel.task_ids == [10, 11, 13, 14, 15, 16]
    assert [refusal.task_id for refusal in parcel.refused] == [12]
    assert "lock" in parcel.refused[0].text
    number, numbers, array, text, raw, short = opened(parcel, arena[1])
    assert (number, numbers, text, raw, short) == (7, [1, 2], "x" * 100_000, b"y" * 100_000, "short")
    assert numpy.array_equal(array, LARGE)
    assert array.flags.writeable
    assert parcel.size > LARGE.nbytes + 200_000


def test_what_is_sent_again_is_placed_again(make_arena: Any) -> None:
    """A worker died, and another gets its task: from the same pickle, in an arena of its own."""
    first, second = make_arena(), make_arena()
    items = kept(LARGE)
    pack_parcel(Packer(first[0]), (0,), items)
    parcel = pack_parcel(Packer(second[0]), (0,), items)
    assert type(parcel.payload[1][0]) is Large
    assert numpy.array_equal(opened(parcel, second[1])[0], LARGE)


def test_long_texts_lie_in_the_arena(arena: Arena) -> None:
    parcel = pack_parcel(Packer(arena[0]), range(2), kept("x" * 100_000, "y" * 100_000))
    assert [type(part) for part in parcel.payload[1]] == [Large, Large]
    assert opened(parcel, arena[1]) == ["x" * 100_000, "y" * 100_000]


def test_containers_are_taken_for_plain_data_until_one_is_not() -> None:
    preparing = Preparing(main_is_known=True)
    assert preparing.as_they_are == ATOMS
    preparing.prepare({"id": 1, "tags": ["a"]})
    assert preparing.as_they_are == PLAIN
    preparing.prepare(b"bytes say nothing about them")
    assert preparing.as_they_are == PLAIN
    preparing.prepare({"id": Point(1, 2)})
    assert preparing.as_they_are == ATOMS
    for _ in range(ENOUGH - 1):
        preparing.prepare({"id": 1})
    assert preparing.as_they_are == ATOMS
    preparing.prepare({"id": 1})
    assert preparing.as_they_are == PLAIN
    preparing.saw_others()
    assert preparing.as_they_are == ATOMS


@pytest.mark.parametrize(
    "item", [{"x": Point(1, 2)}, ["y" * 100_000], [threading.Lock()]], ids=["an object", "a long text", "a lock"]
)
def test_a_frame_says_when_something_in_it_should_have_been_pickled_beforehand(arena: Arena, item: Any) -> None:
    assert pack_parcel(Packer(arena[0]), range(2), [{"a": [1]}, [3]]).all_plain
    assert not pack_parcel(Packer(arena[0]), range(2), [{"a": [1]}, item]).all_plain
    assert pack_parcel(Packer(arena[0]), range(2), kept(Point(1, 2), item)).all_plain
