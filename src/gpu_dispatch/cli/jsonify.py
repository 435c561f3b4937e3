"""Any result as one line of strict JSON. What becomes of what:

    numpy and torch arrays and scalars   lists and numbers
    dataclasses                          objects
    Path, UUID, Decimal                  text
    date, time, datetime                 ISO 8601
    Enum                                 its value
    set, frozenset, deque, range …       lists
    bytes                                {"__bytes__": base64}
    NaN, Infinity                        null, for JSON has neither
    anything else                        {"__repr__": text, "__type__": name}

Nothing is imported to recognise an array: whatever has ``tolist()`` is asked for it.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import math
import os
import uuid
from collections import deque
from collections.abc import Mapping
from typing import Any

_REPR_LIMIT = 2000  # enough to recognise an object; not so much that a model's weights fill the file
_DEPTH_LIMIT = 100


def to_json(record: Mapping[str, Any]) -> bytes:
    """One line of UTF-8, without its newline. Never raises because of what is in the record."""
    try:
        line = _STRICT.encode(record)
    except Exception:  # odd keys, NaN, a loop, an object that raises when looked at: rare, and worth the slow way
        try:
            line = _STRICT.encode(plain(record))
        except Exception:
            line = _STRICT.encode({str(key): marked_repr(value) for key, value in record.items()})
    try:
        return line.encode()
    except UnicodeEncodeError:  # a file name that is not UTF-8
        return json.dumps(json.loads(line)).encode()


def plain(value: Any, depth: int = 0) -> Any:
    """``value`` as nothing but dicts with text keys, lists, text, finite numbers, booleans and None."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth >= _DEPTH_LIMIT:
        return marked_repr(value)
    if isinstance(value, Mapping):
        return {_key(k): plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, depth + 1) for v in value]
    try:
        return plain(_known(value), depth + 1)
    except Exception:  # whatever a strange object does when it is looked at, the rest of its record is written
        return marked_repr(value)


def _known(value: Any) -> Any:
    """One step from an object towards JSON: what ``json`` calls for everything it does not know itself."""
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, uuid.UUID | decimal.Decimal):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes | bytearray | memoryview):
        return {"__bytes__": base64.b64encode(value).decode()}
    if isinstance(value, set | frozenset | deque | range):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if callable(getattr(value, "tolist", None)) and not isinstance(value, type):
        as_list = value.tolist()
        return marked_repr(value) if as_list is value else as_list
    return marked_repr(value)


def marked_repr(value: Any) -> dict[str, str]:
    try:
        text = repr(value)
    except Exception as error:
        text = f"<repr() raised {type(error).__name__}>"
    if len(text) > _REPR_LIMIT:
        text = text[:_REPR_LIMIT] + "…"
    return {"__repr__": text, "__type__": f"{type(value).__module__}.{type(value).__qualname__}"}


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool | int):  # as json itself writes them
        return json.dumps(key)
    return str(key) if isinstance(key, float | os.PathLike) else marked_repr(key)["__repr__"]


_STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_known)
