"""What a task got is let go when the task is done: it lies in shared memory, and may hold memory of the GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy
from plain_workers import Keeper
from recording import run


def test_a_large_item_is_gone_before_the_next_one_comes() -> None:
    def items() -> Iterator[numpy.ndarray]:
        yield numpy.ones(1_000_000)
        time.sleep(1.0)
        yield numpy.ones(1_000_000)

    record = run(Keeper, items(), gpu_ids=[0])

    record.check(2)
    assert record.successes[1] > 0.5
