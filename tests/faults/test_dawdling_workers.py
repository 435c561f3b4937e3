"""A worker may lose the processor between any two steps, also after it has sent a result and before it notes so."""

from __future__ import annotations

import pytest
from plain_workers import Dawdler
from recording import run


@pytest.mark.parametrize("task_timeout", [None, 0.06])
def test_one_that_is_looked_at_in_that_moment_is_neither_given_up_nor_killed(task_timeout: float | None) -> None:
    items = [*[0.001] * 9, 0.03] * 12
    record = run(Dawdler, items, gpu_ids=[0, 1], task_timeout=task_timeout, timeout_grace=0.02)

    record.check(120)
    assert len(record.successes) == 120
    assert record.stats["restarts"] == 0
    assert len(set(record.workers.values())) == 2
