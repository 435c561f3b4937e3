"""Workers killed at random moments, a hundred times: no task is lost, none is told twice, none is run twice."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from historians import Batches, Historian
from recording import Record, executions

from gpu_dispatch import Dispatcher


class Killer(threading.Thread):
    """Kills ready workers, one every so often, until it is told to stop or has killed enough."""

    def __init__(self, dispatcher: Dispatcher, kills: int, pause_s: float, signum: int, seed: int) -> None:
        super().__init__(name="killer")
        self._dispatcher = dispatcher
        self._most, self._pause_s, self._signum = kills, pause_s, signum
        self._random = random.Random(seed)
        self.kills = 0
        self.stop = threading.Event()

    def run(self) -> None:
        while self.kills < self._most and not self.stop.is_set():
            time.sleep(self._random.expovariate(1 / self._pause_s))
            ready = [
                worker["pid"]
                for worker in self._dispatcher.get_stats()["gpu_status"].values()
                if worker["pid"] and worker["status"] in ("idle", "processing")
            ]
            if ready:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._random.choice(ready), self._signum)
                    self.kills += 1


def storm(
    worker_cls: type[Historian],
    history: Path,
    *,
    tasks: int,
    kills: int,
    pause_s: float,
    signum: int = signal.SIGKILL,
    seed: int = 1,
    **options: Any,
) -> tuple[Record, int]:
    """Run ``tasks`` tasks, and as many more as it takes to get ``kills`` kills done."""
    record = Record()
    dispatcher = Dispatcher(worker_cls, [0, 1, 2], max_restarts=1000, suppress_worker_output=True, **options)
    killer = Killer(dispatcher, kills, pause_s, signum, seed)

    def items() -> Iterator[int]:
        number, deadline = 0, time.monotonic() + 120
        while number < tasks or (killer.is_alive() and time.monotonic() < deadline):
            yield number
            number += 1

    killer.start()
    try:
        dispatcher.run(items(), **record.callbacks(), history=str(history))
    finally:
        killer.stop.set()
        killer.join()
    record.stats = dispatcher.get_stats()
    return record, killer.kills


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGABRT], ids=["SIGKILL", "SIGABRT"])
def test_a_storm_of_kills_costs_at_most_one_task_each(tmp_path: Path, signum: int) -> None:
    kills = 110 if signum == signal.SIGKILL else 20
    record, killed = storm(Historian, tmp_path / "h", tasks=20_000, kills=kills, pause_s=0.02, signum=signum)

    total = record.stats["total"]
    record.check(total)
    assert killed == kills
    assert total >= 20_000
    assert len(record.errors) <= killed
    assert {error.kind for error in record.errors.values()} <= {"crash"}
    assert all(signal.Signals(signum).name in error for error in record.errors.values())
    assert all(result == 3 * task_id for task_id, result in record.successes.items())
    executed = executions(tmp_path / "h")
    assert max(executed.values()) == 1
    assert set(record.successes) <= set(executed)


def test_a_storm_with_retries_loses_nothing_and_runs_nothing_too_often(tmp_path: Path) -> None:
    record, killed = storm(
        Historian, tmp_path / "h", tasks=5000, kills=30, pause_s=0.02, seed=2, retries=3, max_crashes=10
    )

    record.check(record.stats["total"])
    assert killed == 30
    assert not record.errors
    executed = executions(tmp_path / "h")
    assert set(executed) == set(record.successes)
    assert max(executed.values()) <= 4
    assert sum(executed.values()) - len(executed) <= killed


def test_a_storm_over_batches_runs_no_task_twice_outside_the_batch_that_was_hit(tmp_path: Path) -> None:
    """A batch that dies is halved and tried again, so its tasks may be executed more than once, the others not."""
    record, killed = storm(Batches, tmp_path / "h", tasks=5000, kills=20, pause_s=0.03, seed=3, batch_size=8)

    record.check(record.stats["total"])
    assert killed == 20
    assert len(record.errors) <= killed
    executed = executions(tmp_path / "h")
    assert set(record.successes) <= set(executed)
    again = [task_id for task_id, count in executed.items() if count > 1]
    assert len(again) <= 8 * killed


def test_stopped_and_continued_workers_lose_nothing(tmp_path: Path) -> None:
    record = Record()
    dispatcher = Dispatcher(Historian, [0, 1])
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            for worker in dispatcher.get_stats()["gpu_status"].values():
                if worker["pid"]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(worker["pid"], signal.SIGSTOP)
                        time.sleep(0.01)
                        os.kill(worker["pid"], signal.SIGCONT)
            time.sleep(0.002)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        dispatcher.run(range(20_000), **record.callbacks(), task_timeout=5.0, history=str(tmp_path / "h"))
    finally:
        stop.set()
        thread.join()
    record.stats = dispatcher.get_stats()

    record.check(20_000)
    assert len(record.successes) == 20_000
    assert max(executions(tmp_path / "h").values()) == 1
    assert record.stats["restarts"] == 0
