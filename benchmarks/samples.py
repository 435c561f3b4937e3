"""One measurement, and the median of several."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    load: str
    system: str
    round: int
    count: int = 0
    elapsed_s: float = 0.0
    value: float | None = None
    """In the unit of the load's figure; ``None`` when the measurement failed."""
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Median:
    value: float
    low: float
    high: float
    rounds: int


Medians = dict[str, dict[str, Median]]
"""load → system → median"""


def medians(samples: Iterable[Sample]) -> Medians:
    values: dict[str, dict[str, list[float]]] = {}
    for sample in samples:
        if sample.value is not None:
            values.setdefault(sample.load, {}).setdefault(sample.system, []).append(sample.value)
    return {
        load: {name: Median(statistics.median(v), min(v), max(v), len(v)) for name, v in by_system.items()}
        for load, by_system in values.items()
    }


def failures(samples: Iterable[Sample]) -> dict[tuple[str, str], str]:
    """The last error of each (load, system) that had one."""
    return {(s.load, s.system): s.error for s in samples if s.error is not None}
