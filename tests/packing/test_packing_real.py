"""Workers per GPU found while running, broken GPUs, and memory after a kill: real workers on a fake driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_nvml import FakeNvml
from packed_workers import Breaks, DiesOnce, Holder

from gpu_dispatch import Dispatcher
from gpu_dispatch.scheduling import packing


@pytest.fixture(autouse=True)
def short_spells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure for half a second instead of two: the tests have less patience than a four-day run."""
    monkeypatch.setattr(packing, "SPELL_S", 0.5)


def until(enough: threading.Event, most: int) -> Iterator[int]:
    for number in range(most):
        if enough.is_set():
            return
        yield number


def watch(dispatcher: Dispatcher, condition, enough: threading.Event, seconds: float = 60.0) -> threading.Thread:
    def look() -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not condition(dispatcher.get_stats()):
            time.sleep(0.05)
        enough.set()

    thread = threading.Thread(target=look)
    thread.start()
    return thread


def ready(stats: dict, gpu: int) -> int:
    return sum(
        worker["gpu_id"] == gpu and worker["status"] in ("idle", "processing")
        for worker in stats["gpu_status"].values()
    )


def test_settles_on_the_number_that_memory_allows(gpus: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory decides here, and not how much the other processes of this machine let through meanwhile."""
    monkeypatch.setattr(packing, "GAIN", 0.0)
    monkeypatch.setattr(packing, "FALL", 0.0)
    dispatcher = Dispatcher(Holder, [0], workers_per_gpu="auto", queue_size=16)
    enough, most = threading.Event(), []

    def settled(stats: dict) -> bool:
        most.append(ready(stats, 0))
        return len(most) > 60 and most[-60:] == [3] * 60  # three seconds at three

    watcher = watch(dispatcher, settled, enough)
    stats = dispatcher.run(until(enough, 10**6), lambda *_: None, mib=3000)
    watcher.join()
    assert max(most) == 3, "3 × 3000 MiB of 10000 leave no room for a fourth"
    assert most[-1] == 3
    assert stats["completed"] == stats["total"]


def test_takes_a_worker_away_when_throughput_falls(gpus: FakeNvml, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    dispatcher = Dispatcher(Holder, [0], workers_per_gpu="auto", queue_size=16)
    enough, seen = threading.Event(), []

    def shrunk(stats: dict) -> bool:
        count = ready(stats, 0)
        seen.append(count)
        if len(seen) > 40 and seen[-40:] == [2] * 40:
            slow.touch()
        return slow.exists() and count == 1

    watcher = watch(dispatcher, shrunk, enough)
    stats = dispatcher.run(until(enough, 10**6), lambda *_: None, mib=4000, slow=str(slow))
    watcher.join()
    assert max(seen) == 2
    assert seen[-1] == 1
    assert stats["completed"] == stats["total"]
    assert stats["failed"] == 0, "a worker that leaves gives its tasks back"


def test_a_lost_gpu_is_taken_out_and_the_run_completes(gpus: FakeNvml, tmp_path: Path) -> None:
    def items() -> Iterator[int]:
        for number in range(200):
            if (tmp_path / "gone").exists():
                gpus.lose(1)
            yield number

    dispatcher = Dispatcher(Breaks, [0, 1], queue_size=8)
    stats = dispatcher.run(items(), lambda *_: None, folder=str(tmp_path))
    assert stats["completed"] == 200, stats["errors"]
    assert stats["gpu_status"][0]["status"] == "finished"
    assert stats["gpu_status"][1]["status"] in ("error", "out of service")
    assert "lost" in stats["gpu_status"][1]["error"]


def test_the_next_worker_waits_until_the_memory_of_the_dead_one_is_free(gpus: FakeNvml, tmp_path: Path) -> None:
    gpus.keep_memory_of_the_dead()
    freed_at = []

    def free_later() -> None:
        time.sleep(1.0)
        freed_at.append(time.monotonic())
        gpus.keep_memory_of_the_dead(False)

    dispatcher = Dispatcher(DiesOnce, [0])
    errors = []
    threading.Thread(target=free_later).start()
    stats = dispatcher.run(
        range(10), lambda *_: None, lambda task, error, worker: errors.append(task), folder=str(tmp_path)
    )
    lives = [float(line.split()[0]) for line in (tmp_path / "lives").read_text().splitlines()]
    assert stats["completed"] == 9
    assert errors == [5]
    assert len(lives) == 2
    assert lives[1] >= freed_at[0]
