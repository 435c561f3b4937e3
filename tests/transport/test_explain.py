"""Texts for the user whose value does not pickle: they name the part of it that is to blame."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import pytest

from gpu_dispatch.transport.codec import Packer, WillNotPickle
from gpu_dispatch.transport.explain import explain_pickling_error


class Model:
    def __init__(self) -> None:
        self.name = "fine"
        self.lock = threading.Lock()


class Slotted:
    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.Lock()


class SlottedChild(Slotted):
    __slots__ = "name"

    def __init__(self) -> None:
        super().__init__()
        self.name = "fine"


@dataclasses.dataclass
class Holder:
    part: Any


class Hostile:
    """Everything one can ask of it raises."""

    __slots__ = ("field",)

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("do not ask")

    def __repr__(self) -> str:
        raise RuntimeError("do not print")

    __str__ = __repr__

    def __reduce__(self) -> Any:
        raise TypeError("do not pickle")


def explanation_of(value: Any) -> str:
    with pytest.raises(WillNotPickle) as caught:
        Packer(None).pack(value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"model": Model()}, "value['model'].lock (of type lock)"),
        ([1, 2, (3, Model())], "value[2][1].lock (of type lock)"),
        (Slotted(), "value.lock (of type lock)"),
        (SlottedChild(), "value.lock (of type lock)"),
        (Holder({"deep": [Model()]}), "value.part['deep'][0].lock (of type lock)"),
        ((number for number in range(3)), "value (of type generator)"),
    ],
)
def test_the_path_to_the_culprit_is_named(value: Any, path: str) -> None:
    text = explanation_of(value)
    assert path in text
    assert "cannot be pickled" in text


def test_the_advice_about_local_functions_is_to_install_cloudpickle() -> None:
    text = explain_pickling_error([lambda: 1], ValueError("no"))
    assert "value[0] (of type function)" in text
    assert "pip install cloudpickle" in text


@pytest.mark.parametrize("make", [Hostile, lambda: [Hostile()], lambda: {"key": Hostile()}, lambda: Holder(Hostile())])
def test_an_object_on_which_everything_raises_is_explained_all_the_same(make: Callable[[], Any]) -> None:
    assert "do not pickle" in explanation_of(make())


def test_a_key_that_cannot_be_printed_is_explained_all_the_same() -> None:
    class Key(Hostile):
        def __reduce__(self) -> Any:
            return (dict, ())

    assert "value[<" in explain_pickling_error({Key(): threading.Lock()}, ValueError("no"))


def test_a_structure_without_end_is_explained_all_the_same() -> None:
    deep: list[Any] = [threading.Lock()]
    for _ in range(10_000):
        deep = [deep]
    assert "cannot be pickled" in explanation_of(deep)
    circle: list[Any] = [Model()]
    circle.append(circle)
    assert "[0].lock" in explanation_of(circle)
