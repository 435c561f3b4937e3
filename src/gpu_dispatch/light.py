"""Slotted dataclasses that cost next to nothing to make, for what is imported before the first task can run.

One class by the ``dataclasses`` of the standard library takes up to a millisecond to make, and importing it takes ten:
a parent, and every worker, would spend more on that than on starting an interpreter. These take some 30 µs each,
because ``__init__`` is compiled when the first object is made: most messages are never made in most processes.

Type checkers see the real thing, and so does who asks at run time: ``dataclasses.fields()``, ``asdict()`` and
``replace()`` work, and a real dataclass may inherit. What is not here (``order=``, ``kw_only=``, …) is a TypeError.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
    from typing import Any
else:

    def dataclass(*, slots, frozen=False):
        if not slots:
            raise TypeError("light dataclasses are slotted")
        return lambda cls: _make(cls, frozen)

    def field(*, default_factory, hash=None):
        return _Field(default_factory, hash)

    def replace(value, /, **changes):
        return value.__replace__(**changes)


class _Field:
    __slots__ = ("default_factory", "hash")

    def __init__(self, default_factory: Callable[[], Any], hash: bool | None) -> None:
        self.default_factory = default_factory
        self.hash = hash


def _make(cls: type, frozen: bool) -> Any:
    names = tuple(cls.__annotations__)
    defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
    hashed = [name for name in names if getattr(defaults.get(name), "hash", None) is not False]
    body = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in defaults and name not in ("__dict__", "__weakref__")
    }

    def __init__(self: Any, *values: object, **named: object) -> None:
        made.__init__ = _compile_init(made, names, defaults, frozen)
        made.__init__(self, *values, **named)

    def values_of(self: object) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in names])

    def __eq__(self: object, other: object) -> bool:
        return values_of(self) == values_of(other) if type(self) is type(other) else NotImplemented

    def __repr__(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    def __reduce_ex__(self: object, protocol: Any) -> Any:
        if type(self) is made:
            return made, values_of(self)  # without the names: half the bytes
        return object.__reduce_ex__(self, protocol)  # a subclass may have added something

    body.setdefault("__repr__", __repr__)
    body.update(
        __slots__=names,
        __match_args__=names,
        __init__=__init__,
        __eq__=__eq__,
        __hash__=None,
        __reduce_ex__=__reduce_ex__,
        __setstate__=_set_state,
        __replace__=lambda self, **changes: type(self)(**{name: getattr(self, name) for name in names} | changes),
        __dataclass_fields__=_Later(lambda: _answer_as_dataclass(made, defaults, frozen).__dataclass_fields__),
        __dataclass_params__=_Later(lambda: _answer_as_dataclass(made, defaults, frozen).__dataclass_params__),
        __signature__=_OwnSignature(lambda: _signature_of(_twin_of(made, defaults, frozen))),
    )
    if frozen:

        def refuse(self: object, name: str, *value: object) -> None:
            if type(self) is made or name in names:
                from dataclasses import FrozenInstanceError

                raise FrozenInstanceError(f"{made.__name__}.{name} cannot be changed")
            (object.__setattr__ if value else object.__delattr__)(self, name, *value)  # what a subclass has added

        body.update(
            __setattr__=refuse,
            __delattr__=refuse,
            __hash__=lambda self: hash(tuple([getattr(self, name) for name in hashed])),
        )
    made: Any = type(cls)(cls.__name__, cls.__bases__, body)
    return made


def _set_state(self: object, state: tuple[dict[str, Any] | None, dict[str, Any]]) -> None:
    for attributes in state:
        for name, value in (attributes or {}).items():
            object.__setattr__(self, name, value)


def _compile_init(cls: type, names: tuple[str, ...], defaults: dict[str, Any], frozen: bool) -> Any:
    """As it would be written by hand; in a frozen class with the slots' own ``__set__``, which is not refused."""
    known: dict[str, Any] = {"_missing": object()}
    arguments, lines = ["self"], ["pass"]
    for name in names:
        default = defaults.get(name)
        if name not in defaults:
            arguments.append(name)
        elif isinstance(default, _Field):
            known[f"_make_{name}"] = default.default_factory
            arguments.append(f"{name}=_missing")
            lines.append(f"if {name} is _missing: {name} = _make_{name}()")
        else:
            known[f"_default_{name}"] = default
            arguments.append(f"{name}=_default_{name}")
        known[f"_set_{name}"] = cls.__dict__[name].__set__
        lines.append(f"_set_{name}(self, {name})" if frozen else f"self.{name} = {name}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(arguments)}):\n " + "\n ".join(lines), known)
    init = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"  # a call with wrong arguments says whose they are
    return init


class _Later:
    """An attribute of a class that is made when somebody looks."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __get__(self, instance: object, owner: type) -> Any:
        return self._make()


class _OwnSignature(_Later):
    """Not that of a class which inherits, and may be made in another way."""

    def __get__(self, instance: object, owner: type) -> Any:
        if "__signature__" not in owner.__dict__:
            raise AttributeError("__signature__")
        return self._make()


def _signature_of(cls: type) -> Any:
    from inspect import signature

    return signature(cls)


def _answer_as_dataclass(cls: Any, defaults: dict[str, Any], frozen: bool) -> Any:
    """Give ``cls`` what the functions of ``dataclasses`` look for."""
    twin = _twin_of(cls, defaults, frozen)
    cls.__dataclass_fields__ = twin.__dataclass_fields__
    cls.__dataclass_params__ = twin.__dataclass_params__
    return cls


def _twin_of(cls: Any, defaults: dict[str, Any], frozen: bool) -> Any:
    """The same class by the real ``dataclasses``."""
    import dataclasses

    real = {
        name: dataclasses.field(default_factory=default.default_factory, hash=default.hash)
        if isinstance(default, _Field)
        else default
        for name, default in defaults.items()
    }
    body = {"__annotations__": cls.__annotations__, "__module__": cls.__module__, "__doc__": cls.__doc__, **real}
    return dataclasses.dataclass(frozen=frozen, slots=True)(type(cls.__name__, (), body))
