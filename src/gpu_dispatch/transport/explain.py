"""Saying which part of an object will not pickle: ``result['model'].lock`` helps, ``cannot pickle`` does not."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_dispatch.transport.pickling import dumps

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any

MOST_DEPTH = 6
MOST_CHILDREN = 1000


def explain_pickling_error(value: Any, error: BaseException, name: str = "value") -> str:
    """What cannot travel, where it sits inside the value, and what to do. Never raises, whatever the value does."""
    try:
        path, culprit = find_culprit(value, name)
    except Exception:  # an attribute or a repr of the user's that raises
        path, culprit = name, value
    kind = type(culprit).__qualname__
    advice = "return plain data (numbers, strings, arrays, dataclasses of the module level) instead"
    if callable(culprit) and "<l" in str(getattr(culprit, "__qualname__", "")):  # <locals>, <lambda>
        advice = "functions and classes defined inside functions travel only with `pip install cloudpickle`"
    return (
        f"{type(error).__name__}: {safe_str(error)}\n"
        f"{path} (of type {kind}) cannot be pickled, so it cannot cross to another process; {advice}."
    )


def find_culprit(value: Any, path: str) -> tuple[str, Any]:
    """The path to the innermost part of ``value`` that does not pickle, and that part."""
    seen: set[int] = set()
    for _ in range(MOST_DEPTH):
        seen.add(id(value))
        for step, child in _children(value):
            if id(child) not in seen and not _pickles(child):
                path, value = path + step, child
                break
        else:
            break
    return path, value


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        parts = ((f"[{_short(key)}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        parts = ((f"[{index}]", part) for index, part in enumerate(value))
    else:
        parts = ((f".{name}", part) for name, part in _fields(value).items())
    for count, part in enumerate(parts):
        if count >= MOST_CHILDREN:
            return
        yield part


def _fields(value: Any) -> dict[str, Any]:
    state = getattr(value, "__dict__", None)
    fields = dict(state) if isinstance(state, dict) else {}
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                fields[name] = getattr(value, name)
    return fields


def _short(key: object) -> str:
    try:
        return f"{key!r:.60}"
    except Exception:
        return f"<{type(key).__qualname__}>"


def _pickles(value: Any) -> bool:
    try:
        dumps(value, protocol=5)
    except BaseException:
        return False
    return True


def safe_str(value: object) -> str:
    """``str()`` of something whose ``__str__`` may itself raise."""
    try:
        return str(value)
    except BaseException as error:
        return f"<{type(value).__qualname__} whose str() raised {type(error).__qualname__}>"
