"""Whatever a worker returns is a line of strict JSON."""

from __future__ import annotations

import array
import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from collections import OrderedDict, deque, namedtuple
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from gpu_dispatch.cli.jsonify import to_json


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Box:
    path: Path
    corners: np.ndarray
    inner: object = None


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Odd:
    def __repr__(self) -> str:
        return "odd " * 1000


class Trap:
    @property
    def tolist(self) -> object:
        raise RuntimeError("do not look")

    def __repr__(self) -> str:
        return "trap"


def strict(line: bytes) -> object:
    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    return json.loads(line.decode("utf-8"), parse_constant=refuse)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, 2.5, None, True, "é"]}, {"a": [1, 2.5, None, True, "é"]}),
        ((1, 2), [1, 2]),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.arange(6).reshape(2, 3), [[0, 1, 2], [3, 4, 5]]),
        (np.array(3.0), 3.0),
        (np.array([1.0, np.nan, np.inf]), [1.0, None, None]),
        (np.datetime64("2026-01-02"), "2026-01-02"),
        (np.array(["a", "b"]), ["a", "b"]),
        (array.array("i", [1, 2]), [1, 2]),
        (float("nan"), None),
        ({"x": float("-inf"), "y": [float("nan")]}, {"x": None, "y": [None]}),
        (Path("a/b"), "a/b"),
        (b"\x00\xff", {"__bytes__": "AP8="}),
        (bytearray(b"a"), {"__bytes__": "YQ=="}),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (decimal.Decimal("1.10"), "1.10"),
        (datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.timezone.utc), "2026-01-02T03:04:00+00:00"),
        (datetime.timedelta(seconds=90), 90.0),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        ({Colour.RED: 1}, {"<Colour.RED: 'red'>": 1}),
        ({1}, [1]),
        (deque([1]), [1]),
        (range(3), [0, 1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": Path("b")}), {"a": "b"}),
        (namedtuple("P", "x y")(1, 2), [1, 2]),
        (Box(Path("p"), np.zeros(2), Box(Path("q"), np.ones(1))), None),
        ({1: "a", None: "b", (2, 3): "c", 1.5: "d"}, {"1": "a", "null": "b", "(2, 3)": "c", "1.5": "d"}),
        ("\udcff", "\udcff"),
    ],
)
def test_what_json_does_not_know_has_a_sensible_form(value, expected):
    if isinstance(value, Box):
        expected = {"path": "p", "corners": [0.0, 0.0], "inner": {"path": "q", "corners": [1.0], "inner": None}}
    assert strict(to_json({"result": value})) == {"result": expected}


@pytest.mark.parametrize(
    ("value", "text", "kind"),
    [
        (3 + 4j, "(3+4j)", "builtins.complex"),
        (Silent(), "<repr() raised RuntimeError>", "Silent"),
        (Trap(), "trap", "Trap"),
        (int, "<class 'int'>", "builtins.type"),
        (ValueError("no"), "ValueError('no')", "builtins.ValueError"),
    ],
)
def test_anything_else_is_its_repr_and_says_so(value, text, kind):
    result = strict(to_json({"result": value}))["result"]
    assert result["__repr__"] == text
    assert result["__type__"].endswith(kind)


def test_a_long_repr_is_cut():
    assert len(to_json({"result": Odd()})) < 2200


def test_a_loop_ends():
    loop: list[object] = []
    loop.append(loop)
    assert strict(to_json({"result": loop}))["result"]


def test_a_number_of_ten_thousand_digits_does_not_end_the_run():
    assert strict(to_json({"task_id": 3, "result": 10**10_000}))


def test_a_line_holds_no_newline_and_keeps_its_letters():
    line = to_json({"result": "été\n\u2028"})
    assert b"\n" not in line
    assert "été".encode() in line
