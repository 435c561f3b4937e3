"""An hour of faults (``make soak``): tiny tasks by the million, workers killed and stopped at random, a processor hog
beside them; and nothing may grow: memory, descriptors, threads, children.

``SOAK_SECONDS=60 make soak`` for a short one.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil
import pytest
from plain_workers import Echo

from gpu_dispatch import Dispatcher

SECONDS = float(os.environ.get("SOAK_SECONDS", "3600"))
KILL_EVERY_S = 2.0  # on average
SAMPLE_EVERY_S = max(0.5, SECONDS / 200)


class Chaos(threading.Thread):
    """Kills workers, and stops them for a moment, at exponentially distributed intervals."""

    def __init__(self, dispatcher: Dispatcher, seed: int) -> None:
        super().__init__(daemon=True)
        self._dispatcher = dispatcher
        self._chance = random.Random(seed)
        self.over = threading.Event()
        self.kills = 0

    def run(self) -> None:
        while not self.over.wait(self._chance.expovariate(1 / KILL_EVERY_S)):
            workers = self._dispatcher.get_stats()["gpu_status"].values()
            pids = [worker["pid"] for worker in workers if worker["pid"] is not None]
            if not pids:
                continue
            pid = self._chance.choice(pids)
            try:
                if self._chance.random() < 0.7:
                    os.kill(pid, signal.SIGKILL)
                    self.kills += 1
                else:
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(self._chance.random())
                    os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass


class Samples(threading.Thread):
    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.taken: list[tuple[float, float, int, int, int]] = []  # at, RSS in MB, descriptors, threads, children

    def run(self) -> None:
        me = psutil.Process()
        while not self.over.wait(SAMPLE_EVERY_S):
            rss = me.memory_info().rss / 2**20
            sample = (time.monotonic(), rss, me.num_fds(), me.num_threads(), len(me.children()))
            self.taken.append(sample)

    def growth(self, column: int) -> float:
        """From the median of the second quarter to that of the last: the first is for warming up."""
        values = [sample[column] for sample in self.taken]
        quarter = len(values) // 4
        early, late = sorted(values[quarter : 2 * quarter]), sorted(values[-quarter:])
        return late[len(late) // 2] - early[len(early) // 2]


@pytest.mark.soak
@pytest.mark.timeout(SECONDS * 2 + 300)
def test_nothing_is_lost_and_nothing_grows_under_chaos() -> None:
    dispatcher = Dispatcher(Echo, [0, 1, 2], queue_size=512, max_restarts=1000)
    until = time.monotonic() + SECONDS

    def items() -> Iterator[int]:
        number = 0
        while time.monotonic() < until:
            yield number
            number += 1

    words = {"success": 0, "error": 0}
    wrong: list[int] = []

    def on_success(task_id: int, result: int, worker_id: int) -> None:
        words["success"] += 1
        if result != task_id:
            wrong.append(task_id)

    def on_error(task_id: int, error: str, worker_id: int) -> None:
        words["error"] += 1

    hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    chaos, samples = Chaos(dispatcher, seed=int(time.time())), Samples()
    chaos.start()
    samples.start()
    try:
        stats = dispatcher.run(items(), on_success, on_error)
    finally:
        chaos.over.set()
        samples.over.set()
        chaos.join()
        samples.join()
        hog.kill()
        hog.wait()
    print(f"\n{stats['total']:,} tasks, {chaos.kills} kills, {stats['restarts']} restarts, {words}")
    assert not wrong
    assert words["success"] + words["error"] == stats["total"], "every task has exactly one word"
    assert words["error"] <= chaos.kills, "a kill costs at most one task"
    assert samples.growth(1) < 20, "memory"
    assert samples.growth(2) <= 8, "descriptors"
    assert samples.growth(3) <= 2, "threads"
    assert samples.growth(4) <= 1, "children"
