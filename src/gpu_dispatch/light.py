"""Frozen, slotted dataclasses without the ``dataclasses`` module, for what a worker process imports at birth.

``import dataclasses`` and making twenty of them costs a worker more than starting the interpreter does. Type checkers
see the real thing; at run time this has what messages need: fields, defaults, equality, a repr, pickling.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen, slots):
        if not (frozen and slots):
            raise TypeError("light dataclasses are frozen and slotted")
        return _make


def _make(cls: type) -> type:
    fields = tuple(cls.__annotations__)
    defaults = {name: cls.__dict__[name] for name in fields if name in cls.__dict__}
    body = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in defaults and name not in ("__dict__", "__weakref__")
    }
    assign = object.__setattr__

    def __init__(self: object, *values: object, **named: object) -> None:
        given = {**defaults, **dict(zip(fields, values, strict=False)), **named}
        if len(values) > len(fields) or given.keys() != set(fields):
            raise TypeError(f"{cls.__name__} takes {', '.join(fields)}; got {len(values)} values and {sorted(named)}")
        for name in fields:
            assign(self, name, given[name])

    def values_of(self: object) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in fields)

    def frozen(self: object, name: str, value: object = None) -> None:
        raise AttributeError(f"{cls.__name__}.{name} cannot be changed")

    body.update(
        __slots__=fields,
        __init__=__init__,
        __setattr__=frozen,
        __delattr__=frozen,
        __eq__=lambda self, other: type(self) is type(other) and values_of(self) == values_of(other),
        __hash__=lambda self: hash(values_of(self)),
        __repr__=lambda self: f"{cls.__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in fields)})",
        __reduce__=lambda self: (type(self), values_of(self)),
        __match_args__=fields,
    )
    return type(cls)(cls.__name__, cls.__bases__, body)
