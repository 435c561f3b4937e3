"""``gpu_dispatch.light`` against the standard library: whoever uses one of its classes cannot tell the difference."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing
from typing import Any

import pytest

from gpu_dispatch import RetryPolicy, TaskSuccess, light, protocol


@dataclasses.dataclass(frozen=True, slots=True)
class Real:
    """The same."""

    a: int
    b: str = "b"
    c: Any = dataclasses.field(default_factory=list, hash=False)

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("a")


@light.dataclass(frozen=True, slots=True)
class Light:
    """The same."""

    a: int
    b: str = "b"
    c: Any = light.field(default_factory=list, hash=False)

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("a")


@light.dataclass(slots=True)
class Changing:
    a: int
    b: int = 2


@light.dataclass(frozen=True, slots=True)
class Nothing:
    pass


def both(ask: Any) -> None:
    """Ask both; the answers must be the same, but for the name of the class."""
    answers = []
    for cls in (Real, Light):
        try:
            answers.append(repr(ask(cls)).replace(cls.__name__, "Class"))
        except Exception as error:
            answers.append(f"{type(error).__name__}: {error}".replace(cls.__name__, "Class"))
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "ask",
    [
        lambda cls: cls(1),
        lambda cls: cls(1, "x", c=3),
        lambda cls: cls(),
        lambda cls: cls(1, 2, 3, 4),
        lambda cls: cls(1, d=4),
        lambda cls: cls(-1),
        lambda cls: cls(1).c is cls(1).c,
        lambda cls: cls(1) == cls(1),
        lambda cls: cls(1) == cls(2),
        lambda cls: cls(1) == (1, "b", []),
        lambda cls: hash(cls(1)) == hash(cls(1, c=[7])),
        lambda cls: hash(cls(1)),
        lambda cls: cls.__match_args__,
        lambda cls: cls.__doc__,
        lambda cls: hasattr(cls(1), "__dict__"),
        lambda cls: dataclasses.is_dataclass(cls),
        lambda cls: [(f.name, f.type, f.default) for f in dataclasses.fields(cls) if f.name != "c"],
        lambda cls: dataclasses.asdict(cls(1)),
        lambda cls: dataclasses.astuple(cls(1)),
        lambda cls: dataclasses.replace(cls(1), b="new"),
        lambda cls: dataclasses.replace(cls(1), d="new"),
        lambda cls: copy.copy(cls(1)),
        lambda cls: copy.deepcopy(cls(1)),
        lambda cls: pickle.loads(pickle.dumps(cls(1))),
    ],
)
def test_a_light_dataclass_behaves_like_a_real_one(ask: Any) -> None:
    both(ask)


@pytest.mark.parametrize("change", [lambda it: setattr(it, "a", 2), lambda it: delattr(it, "a")])
def test_what_is_frozen_cannot_be_changed(change: Any) -> None:
    it = Light(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        change(it)
    assert it.a == 1


def test_what_is_not_frozen_can_and_is_not_hashable() -> None:
    it = Changing(1)
    it.b = 3
    assert it == Changing(1, 3)
    with pytest.raises(TypeError):
        hash(it)


def test_a_class_without_fields() -> None:
    assert Nothing() == Nothing()
    assert repr(Nothing()) == "Nothing()"


def test_matching_by_position() -> None:
    match Light(1, "x"):
        case Light(a, b):
            assert (a, b) == (1, "x")


@dataclasses.dataclass(frozen=True)
class Patient(RetryPolicy):
    patience: int = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted(RetryPolicy):
    patience: int = 3


class Noted(RetryPolicy):
    pass


@pytest.mark.parametrize("cls", [Patient, Slotted])
def test_a_real_dataclass_may_inherit_from_ours(cls: Any) -> None:
    assert cls(retries=2).patience == 3
    assert dataclasses.replace(cls(retries=2), patience=4) == cls(2, patience=4)
    assert pickle.loads(pickle.dumps(cls(2, patience=4))) == cls(2, patience=4)


def test_an_ordinary_subclass_may_add_attributes() -> None:
    policy = Noted(retries=1)
    policy.note = "mine"  # type: ignore[attr-defined]
    again = pickle.loads(pickle.dumps(policy))
    assert (again.note, again.retries) == ("mine", 1)
    del policy.note  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.retries = 2  # type: ignore[misc]


def test_the_new_way_to_replace() -> None:
    assert light.replace(TaskSuccess(1, "x", 0), data="y") == TaskSuccess(1, "y", 0)


def test_types_and_signatures_of_public_classes_can_be_asked_for() -> None:
    assert set(typing.get_type_hints(protocol.TaskSuccess)) == {"task_id", "data", "worker_id"}
    assert list(inspect.signature(protocol.TaskTimeout).parameters) == ["task_id", "timeout", "worker_id"]
    protocol.TaskTimeout(1, 2.0, 3)
    assert str(inspect.signature(protocol.TaskTimeout).parameters["timeout"]) == "timeout: 'float'"
    typing.get_type_hints(RetryPolicy)
    assert "retries" in inspect.signature(RetryPolicy).parameters


def test_a_subclass_has_the_signature_of_its_own_init() -> None:
    class Named(protocol.TaskTimeout):
        def __init__(self, name: str) -> None:
            super().__init__(1, 2.0, 3)

    assert list(inspect.signature(Named).parameters) == ["name"]
