"""Memory does not grow with the number of items, nor with results that wait for a slow callback."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from plain_workers import Echo, Megabytes

from gpu_dispatch import Dispatcher, batching
from gpu_dispatch.engine.loop import MOST_UNDELIVERED_BYTES

MB = 1 << 20


def rss_mb() -> float:
    return psutil.Process().memory_info().rss / MB


@pytest.mark.slow
def test_five_million_items_take_no_more_memory_than_a_thousand() -> None:
    """Also the proof that nothing is kept per task: five million of anything is more than 30 MB."""
    at_a_thousand, most = 0.0, 0.0
    done = 0

    def on_success(task_id: int, result: int, worker_id: int) -> None:
        nonlocal done, at_a_thousand, most
        done += 1
        if done == 1000:
            gc.collect()
            at_a_thousand = rss_mb()
        elif not done % 250_000:
            most = max(most, rss_mb())

    items: Iterator[int] = iter(range(5_000_000))
    stats = Dispatcher(Echo, [0, 1]).run(items, on_success)

    assert stats["completed"] == done == 5_000_000
    assert most - at_a_thousand < 30, f"{at_a_thousand:.0f} MB at a thousand items, {most:.0f} MB later"


def test_with_callbacks_for_starts_and_events_nothing_is_kept_per_task_either() -> None:
    seen = {"starts": 0, "events": 0}
    at_first, most = 0.0, 0.0

    def on_success(task_id: int, result: int, worker_id: int) -> None:
        nonlocal at_first, most
        if task_id == 20_000:
            gc.collect()
            at_first = rss_mb()
        elif task_id and not task_id % 20_000:
            most = max(most, rss_mb())

    Dispatcher(Echo, [0, 1]).run(
        iter(range(120_000)),
        on_success,
        on_task_start=lambda *_: seen.update(starts=seen["starts"] + 1),
        on_progress=lambda event: seen.update(events=seen["events"] + 1),
    )

    assert seen["starts"] == 120_000
    assert seen["events"] >= 4 * 120_000
    assert most - at_first < 15


@pytest.mark.parametrize("watched", [False, True], ids=["", "with events"])
@pytest.mark.parametrize("megabytes", [1, 0.03], ids=["through shared memory", "through the channel"])
def test_results_that_wait_for_a_slow_callback_take_bounded_memory(
    megabytes: float, watched: bool, monkeypatch
) -> None:
    """A gigabyte and more comes back in all, and now and then a callback takes its time."""
    arena_mb = 32  # instead of a share of the machine's memory
    monkeypatch.setattr(batching, "arena_bytes", lambda workers: arena_mb * MB)
    results = int(1200 / megabytes) // 2
    most, done = 0.0, 0

    def on_success(task_id: int, result: bytes, worker_id: int) -> None:
        nonlocal most, done
        done += 1
        if not done % (results // 12):
            time.sleep(0.1)
            most = max(most, memory_of_all_mb())

    before = memory_of_all_mb()
    watch: dict[str, Any] = {"on_progress": lambda event: None} if watched else {}
    Dispatcher(Megabytes, [0, 1], queue_size=20_000).run([megabytes] * results, on_success, **watch)

    assert done == results
    undelivered_mb = MOST_UNDELIVERED_BYTES / MB
    assert most - before < undelivered_mb + 2 * arena_mb + 120  # and two workers with an interpreter each


def memory_of_all_mb() -> float:
    """Of this process and its workers, pages that they share counted once."""
    total_kb = 0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with contextlib.suppress(OSError, IndexError):
            lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
            total_kb += int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return total_kb / 1024


def test_no_more_items_are_pulled_than_the_queue_holds() -> None:
    pulled = 0
    most_ahead = 0
    done = 0

    def items() -> Iterator[int]:
        nonlocal pulled, most_ahead
        for number in range(3000):
            pulled += 1
            most_ahead = max(most_ahead, pulled - done)
            yield number

    def on_success(task_id: int, result: int, worker_id: int) -> None:
        nonlocal done
        done += 1
        time.sleep(0.0002)

    Dispatcher(Echo, [0, 1], queue_size=50).run(items(), on_success)

    assert done == 3000
    assert most_ahead <= 51 + 50  # the outcomes of one message are given back together
