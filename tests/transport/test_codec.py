"""Objects to bytes and back: everything that crosses is equal on the other side, and arrays can be written to."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import gc
import pickle
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pyarrow
import pytest

from gpu_dispatch.transport.arena import THRESHOLD, ArenaReader, ArenaWriter
from gpu_dispatch.transport.codec import (
    Large,
    Packer,
    WillNotPickle,
    discard,
    pack_together,
    packed_size,
    plain_dumps,
    unpack,
)

Arena = tuple[ArenaWriter, ArenaReader]
MakeArena = Callable[..., Arena]

NUMBERS = "?bhilqBHILQefdgFDG"
OTHERS = ["S7", "U5", "M8[ns]", "m8[s]", "V6", ">f4", ">i8"]


@dataclasses.dataclass
class Point:
    x: Any
    y: Any


class Colour(enum.Enum):
    RED = 1


def cross(value: Any, arena: Arena) -> Any:
    writer, reader = arena
    return unpack(Packer(writer).pack(value), reader)


def pieces_in_use(writer: ArenaWriter) -> int:
    gc.collect()
    writer._collect()
    return len(writer._taken)


@pytest.mark.parametrize("count", [0, 1, 100, 100_000], ids=["empty", "one", "small", "large"])
@pytest.mark.parametrize("dtype", [*NUMBERS, *OTHERS])
def test_arrays_of_every_dtype_cross_and_can_be_written_to(arena: Arena, dtype: str, count: int) -> None:
    value = numpy.zeros(count, dtype=dtype) if dtype[0] in "SUV" else (numpy.arange(count) % 1000).astype(dtype)
    result = cross(value, arena)
    assert result.dtype == value.dtype
    assert result.shape == value.shape
    assert result.tobytes() == value.tobytes()
    assert result.flags.writeable
    result[...] = numpy.zeros((), dtype=dtype)


LARGE = numpy.arange(60_000, dtype=numpy.float32).reshape(200, 300)
SHAPES = {
    "C order": LARGE,
    "F order": numpy.asfortranarray(LARGE),
    "a transposed view": LARGE.T,
    "every second row": LARGE[::2],
    "every second column": LARGE[:, ::2],
    "backwards": LARGE[::-1, ::-1],
    "broadcast": numpy.broadcast_to(numpy.float32(3), (300, 300)),
    "no dimension": numpy.array(3.5),
    "an empty axis": numpy.zeros((300, 0, 300)),
    "seven dimensions": LARGE.reshape(2, 100, 1, 3, 10, 10, 1),
    "a record array": numpy.zeros(10_000, dtype=[("a", "i4"), ("b", "f8", (3,)), ("c", "S5")]),
    "objects": numpy.array([{"a": 1}, "x" * 50_000, None, 3], dtype=object),
    "masked": numpy.ma.masked_less(LARGE, 100),
}


@pytest.mark.parametrize("value", SHAPES.values(), ids=SHAPES)
def test_arrays_of_every_shape_and_order_cross(arena: Arena, value: numpy.ndarray[Any, Any]) -> None:
    result = cross(value, arena)
    assert result.shape == value.shape
    assert result.dtype == value.dtype
    assert numpy.array_equal(result, value)
    assert result.flags.writeable
    assert type(result) is type(value)


def test_an_array_that_must_not_be_written_to_stays_so(arena: Arena) -> None:
    value = LARGE.copy()
    value.flags.writeable = False
    result = cross(value, arena)
    assert numpy.array_equal(result, value)
    assert not result.flags.writeable


def test_writing_to_what_arrived_does_not_change_what_was_sent(arena: Arena) -> None:
    value = numpy.zeros(100_000)
    cross(value, arena)[:] = 1
    assert not value.any()


@pytest.mark.parametrize("size", [0, 1, THRESHOLD - 1, THRESHOLD, 1_000_000])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_bytes_cross_as_what_they_were(arena: Arena, kind: type, size: int) -> None:
    value = kind(bytes(range(256)) * (size // 256 + 1))[:size]
    result = cross(value, arena)
    assert type(result) is kind
    assert result == value


VALUES = {
    "nested": {"images": [LARGE, LARGE[:10]], "meta": ("a", {"mask": LARGE > 3}), "raw": b"x" * 100_000},
    "the same array twice": [LARGE, LARGE],
    "a dataclass": Point(LARGE, "y"),
    "an array.array": array.array("d", range(50_000)),
    "a long text": "żółć" * 100_000,
    "a large dict": {str(number): number for number in range(20_000)},
    "a deque": collections.deque(range(20_000)),
    "plain things": [1, 2.5, None, True, "x", b"y", {3}, decimal.Decimal("1.1"), datetime.date(2026, 1, 1), Colour.RED],
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_values_cross(arena: Arena, value: Any) -> None:
    assert repr(cross(value, arena)) == repr(value)


def test_parts_that_were_one_object_stay_one_object(arena: Arena) -> None:
    first, second = cross([LARGE, LARGE], arena)
    assert first is second


def test_arrow_tables_and_buffers_cross(arena: Arena) -> None:
    table = pyarrow.table({"id": range(50_000), "text": ["row"] * 50_000, "score": numpy.random.rand(50_000)})
    assert cross(table, arena).equals(table)
    buffer = pyarrow.py_buffer(b"z" * 100_000)
    assert cross(buffer, arena).equals(buffer)
    assert cross(table.to_batches()[0], arena).equals(table.to_batches()[0])


def test_large_buffers_lie_in_the_arena_and_small_ones_do_not(arena: Arena) -> None:
    packer = Packer(arena[0])
    assert isinstance(packer.pack(LARGE), Large)
    assert isinstance(packer.pack(LARGE[:10]), bytes)
    packed = packer.pack([LARGE, b"x"])
    assert isinstance(packed, Large)
    assert LARGE.nbytes < packed_size(packed) < LARGE.nbytes + 1000


def test_pieces_are_free_again_when_what_arrived_is_gone(arena: Arena) -> None:
    writer, _ = arena
    kept = [cross(LARGE, arena) for _ in range(5)]
    text = cross("x" * 100_000, arena)
    assert pieces_in_use(writer) == 5, "a text is copied out of the arena at once"
    assert len(text) == 100_000
    kept.clear()
    assert pieces_in_use(writer) == 0


def test_what_is_discarded_unopened_is_free_again(arena: Arena) -> None:
    writer, reader = arena
    packed = Packer(writer).pack([LARGE, b"x" * 100_000, "y" * 100_000])
    assert pieces_in_use(writer) == 2  # the array, and the pickle that holds bytes and text
    discard(packed, reader)
    discard(b"small", reader)
    assert pieces_in_use(writer) == 0


def test_a_full_arena_makes_values_travel_inside_their_message(make_arena: MakeArena) -> None:
    arena = make_arena(1 << 20)
    kept = [cross(LARGE, arena) for _ in range(10)]
    assert all(numpy.array_equal(array, LARGE) for array in kept)
    assert all(array.flags.writeable for array in kept)
    assert isinstance(Packer(arena[0]).pack(LARGE), bytes)
    assert cross(b"x" * 500_000, arena) == b"x" * 500_000
    assert isinstance(cross(bytearray(500_000), arena), bytearray)


class Locked:
    def __init__(self) -> None:
        self.lock = threading.Lock()


@pytest.mark.parametrize("broken", [Locked(), threading.Lock(), (part for part in "generator")])
def test_what_will_not_pickle_leaves_nothing_in_the_arena(arena: Arena, broken: Any) -> None:
    packer = Packer(arena[0])
    with pytest.raises(WillNotPickle):
        packer.pack([LARGE, LARGE, {"broken": broken}])
    assert pieces_in_use(arena[0]) == 0
    packed = packer.pack("fine")
    assert unpack(packed, arena[1]) == "fine", "the packer works on"


class Exits:
    def __reduce__(self) -> Any:
        sys.exit(3)


def test_user_code_that_exits_while_it_is_pickled_is_a_value_that_will_not_pickle(arena: Arena) -> None:
    with pytest.raises(WillNotPickle, match="SystemExit"):
        Packer(arena[0]).pack([LARGE, Exits()])
    assert pieces_in_use(arena[0]) == 0


def test_a_value_that_will_not_open_leaves_nothing_in_the_arena(arena: Arena) -> None:
    writer, reader = arena
    packed = Packer(writer).pack([LARGE, OpensBadly()])
    with pytest.raises(RuntimeError, match="opens badly"):
        unpack(packed, reader)
    assert pieces_in_use(writer) == 0


class OpensBadly:
    def __setstate__(self, state: Any) -> None:
        raise RuntimeError("opens badly")

    def __getstate__(self) -> Any:
        return {"a": 1}


def test_lambdas_cross_with_cloudpickle(arena: Arena) -> None:
    assert cross({"f": lambda x: x + 1}, arena)["f"](2) == 3


class Point(NamedTuple):
    x: int
    y: int


SAME = {"a": 1}


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([1, 2.5, "x", None, True], id="atoms"),
        pytest.param([("a.wav", 3), ("b.wav", 4), ()], id="tuples of atoms"),
        pytest.param([{"id": 1, "text": "x"}, {"id": 2, 7: None}, {}], id="dicts of atoms"),
    ],
)
def test_plain_items_cross_in_one_pickle(items: list[Any]) -> None:
    packed = pack_together(items)
    assert packed is not None
    assert pickle.loads(packed) == items


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([1, [2]], id="a list"),
        pytest.param([1, numpy.float64(2)], id="a number that needs numpy to open"),
        pytest.param([SAME, SAME], id="one dict twice: what one task does to it, another would see"),
        pytest.param([{"tags": SAME}, {"tags": SAME}], id="a dict in two others"),
        pytest.param([([1],), (2,)], id="a list in a tuple"),
        pytest.param([{("a", 1): 2}], id="a key of another kind"),
        pytest.param([{"a": bytearray(b"x")}], id="a bytearray"),
        pytest.param([(1, 2), {"a": 1}], id="a mixture"),
        pytest.param([Point(1, 2), Point(3, 4)], id="tuples of a class"),
        pytest.param(["x" * 1_000_000], id="large texts are better off in the arena"),
        pytest.param([("x" * 1_000_000, 1)], id="and so they are in a tuple"),
    ],
)
def test_other_items_cross_each_in_a_pickle_of_its_own(items: list[Any]) -> None:
    assert pack_together(items) is None


def test_arguments_sent_once_hold_everything_inside() -> None:
    assert pickle.loads(plain_dumps({"weights": LARGE}))["weights"].shape == LARGE.shape


MAIN_SCRIPT = """
    import sys
    if {hide}:
        sys.modules["cloudpickle"] = None
    from gpu_dispatch.transport.codec import Packer, WillNotPickle, unpack

    class Mine:
        pass

    def function(x):
        return x

    packer = Packer(None, main_is_known=False)
    source = {{"text": "if __name__ == '__main__': main()", "raw": b"__main__"}}
    assert unpack(packer.pack(source), None) == source
    for value in (Mine, Mine(), [Mine()], function, {{"f": function}}):
        try:
            assert b"cloudpickle" in packer.pack(value)  # by value
            assert not {hide}, "the workers could not open this"
        except WillNotPickle as error:
            assert {hide}, error
            assert "main script" in str(error), error
    print("good")
"""


@pytest.mark.parametrize("hide", [False, True], ids=["with cloudpickle", "without cloudpickle"])
def test_a_text_about_main_is_not_taken_for_a_class_of_main(tmp_path: Path, hide: bool) -> None:
    """Items that are Python source have the word in them; only a class or function of the script is a problem."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(MAIN_SCRIPT).format(hide=hide))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stdout == "good\n", done.stderr
