"""What the user wrote for ``gpu_ids``, understood but not yet looked up.

    [0, 1]  range(4)  "0,2-5"  "GPU-ab12…"  ["MIG-…", 3]  →  a tuple of Id and Uuid
    "auto"                                                →  Auto
    "cpu"  "cpu:4"                                        →  Cpu

Everything wrong with the wording is found here, without touching a driver. Whether such a device exists is
the business of grants.py.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Set

from gpu_dispatch.errors import DeviceSpecError
from gpu_dispatch.light import dataclass

MOST_SLOTS = 1024  # above any machine we know of; "0-99999999" is a slip, and must not fill the memory

FORMS = 'write [0, 1], "0,2-5", "GPU-<uuid>", "MIG-<uuid>", "auto" or "cpu:4"'


@dataclass(frozen=True, slots=True)
class Id:
    """A number. ``typed``: it came in a string, so a person typed it, and it is checked where there are GPUs."""

    number: int
    typed: bool = False


@dataclass(frozen=True, slots=True)
class Uuid:
    """The UUID of a GPU or MIG instance, possibly just the beginning of it."""

    text: str


@dataclass(frozen=True, slots=True)
class Auto:
    """Every usable GPU."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """So many workers without a device."""

    count: int


Wanted = Auto | Cpu | tuple[Id | Uuid, ...]


def parse(spec: object) -> Wanted:
    """Understand ``gpu_ids``, or raise DeviceSpecError with the offending value in the message."""
    if isinstance(spec, str):
        word = spec.strip().lower()
        if word == "auto":
            return Auto()
        if word == "cpu" or word.startswith("cpu:"):
            return Cpu(_cpu_count(spec))
        wanted = [item for part in spec.split(",") for item in _typed(part, spec)]
    elif isinstance(spec, int) and not isinstance(spec, bool):
        raise DeviceSpecError(
            f"gpu_ids={spec!r} is a bare number: write [{spec}] for that GPU, range({spec}) for so many"
        )
    elif isinstance(spec, Set | Mapping | bytes) or not isinstance(spec, Iterable):
        raise DeviceSpecError(
            f"gpu_ids must be a list of ids or a string, got {type(spec).__name__}: {spec!r:.80}; {FORMS}"
        )
    else:
        wanted = [item for element in spec for item in _listed(element)]
    if not wanted:
        raise DeviceSpecError(f"gpu_ids={spec!r} is empty: at least one device is needed; {FORMS}")
    if len(wanted) > MOST_SLOTS:
        raise DeviceSpecError(f"gpu_ids={spec!r:.80} names {len(wanted)} devices, more than {MOST_SLOTS}")
    _refuse_duplicates(wanted)
    return tuple(wanted)


def _listed(element: object) -> list[Id | Uuid]:
    if isinstance(element, str):
        return _typed(element, element)
    if isinstance(element, bool):
        raise DeviceSpecError(f"gpu_ids holds {element!r}: a GPU id is a number or a UUID, not a bool")
    try:
        number = operator.index(element)  # type: ignore[arg-type]  # numpy's integers are welcome too
    except TypeError:
        raise DeviceSpecError(
            f"gpu_ids holds {element!r:.80} ({type(element).__name__}): a GPU id is a number or a UUID"
        ) from None
    if number < 0:
        raise DeviceSpecError(f"gpu_ids holds {number}: a GPU id cannot be negative")
    return [Id(number)]


def _typed(part: str, whole: str) -> list[Id | Uuid]:
    item = part.strip()
    if not item:
        where = "is empty" if not whole.strip() else "has an empty entry"
        raise DeviceSpecError(f"gpu_ids={whole!r} {where}; {FORMS}")
    if re.fullmatch(r"[0-9]+", item):
        return [Id(int(item), typed=True)]
    if re.match(r"(GPU|MIG)-.", item, re.IGNORECASE):
        return [Uuid(item)]
    if re.fullmatch(r"-\s*[0-9]+", item):
        raise DeviceSpecError(f"gpu_ids={whole!r} holds {item}: a GPU id cannot be negative")
    if ends := re.fullmatch(r"([0-9]+)\s*-\s*([0-9]+)", item):
        first, last = int(ends[1]), int(ends[2])
        if last < first:
            raise DeviceSpecError(f"gpu_ids={whole!r}: the range {item!r} runs backwards, write {last}-{first}")
        if last - first >= MOST_SLOTS:
            raise DeviceSpecError(f"gpu_ids={whole!r}: the range {item!r} names more than {MOST_SLOTS} devices")
        return [Id(number, typed=True) for number in range(first, last + 1)]
    if item.lower() == "auto" or item.lower().startswith("cpu"):
        raise DeviceSpecError(f"gpu_ids: {item!r} stands alone, it cannot be one entry among others")
    raise DeviceSpecError(f"gpu_ids={whole!r}: {item!r} is neither a number, a range nor a UUID; {FORMS}")


def _cpu_count(spec: str) -> int:
    count = re.fullmatch(r"cpu(?::\s*([0-9]+))?", spec.strip(), re.IGNORECASE)
    number = int(count[1] or 1) if count else 0
    if not 1 <= number <= MOST_SLOTS:
        raise DeviceSpecError(f'gpu_ids={spec!r}: write "cpu:N", N being how many workers, 1 to {MOST_SLOTS}')
    return number


def _refuse_duplicates(wanted: Iterable[Id | Uuid]) -> None:
    seen: set[int | str] = set()
    for item in wanted:
        key = item.number if isinstance(item, Id) else item.text.lower()
        if key in seen:
            name = item.number if isinstance(item, Id) else item.text
            raise DeviceSpecError(f"gpu_ids names {name} twice; for several workers on a GPU use workers_per_gpu")
        seen.add(key)
