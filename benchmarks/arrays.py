"""The items and the work of the array loads. The only module here that imports numpy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

RING_BYTES = 256 * 2**20
"""Distinct data behind a stream of arrays: more than any cache holds, little enough for a small machine."""


def ring(nbytes: int) -> list[Any]:
    return [np.full(nbytes // 4, 1.0 + i, dtype=np.float32) for i in range(max(2, RING_BYTES // nbytes))]


def stream(arrays: list[Any], count: int) -> Iterator[Any]:
    """Every item a new array object, though over a ring of memory: joblib writes an array object that it has
    seen before only once, which a real stream of data would not let it do."""
    return (array[:] for array in itertools.islice(itertools.cycle(arrays), count))


def ends(array: Any) -> float:
    """Touches the array and little more, so that the figure is what crossing costs."""
    return float(array[0]) + float(array[-1])


def shifted(array: Any) -> Any:
    return array + 1.0


def copy_all(arrays: Iterator[Any], times: int) -> int:
    """What memcpy alone would take: each array into one of four warm buffers, ``times`` times."""
    buffers: list[Any] | None = None
    count = 0
    for array in arrays:
        if buffers is None:
            buffers = [np.zeros_like(array) for _ in range(4)]
        for turn in range(times):
            np.copyto(buffers[(count + turn) % 4], array)
        count += 1
    return count
