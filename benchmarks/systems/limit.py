"""The limit: what the machine does when nothing is dispatched. Which form it takes depends on the load."""

from __future__ import annotations

import heapq
import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.job import Job


def run(job: Job) -> None:
    _FORMS[job.limit](job)


def _static_split(job: Job) -> None:
    items = list(job.items())
    _run_split(job, [items[i :: job.workers] for i in range(job.workers)])


def _longest_first(job: Job) -> None:
    """Each duration, from the longest on, to the process that has least to do: at most a third over the ideal."""
    loads: list[tuple[float, int]] = [(0.0, i) for i in range(job.workers)]
    shares: list[list[float]] = [[] for _ in loads]
    for duration in sorted(job.items(), reverse=True):
        total, i = heapq.heappop(loads)
        shares[i].append(duration)
        heapq.heappush(loads, (total + duration, i))
    _run_split(job, shares)


def _run_split(job: Job, shares: list[list[Any]]) -> None:
    """Every process has its share in memory before the clock starts, and says only that it is done."""
    fork = multiprocessing.get_context("fork")
    here, go, done = fork.Semaphore(0), fork.Semaphore(0), fork.Semaphore(0)
    processes = [fork.Process(target=_loop, args=(job.work, share, here, go, done)) for share in shares]
    for process in processes:
        process.start()
        here.acquire()
    job.workers_ready()
    for _ in processes:
        go.release()
    for _ in processes:
        done.acquire()
    job.take_many(job.count)
    for process in processes:
        process.join()


def _loop(work: Callable[[Any], Any], share: list[Any], here: Any, go: Any, done: Any) -> None:
    here.release()
    go.acquire()
    for item in share:
        work(item)
    done.release()


def _memcpy(job: Job, times: int = 1) -> None:
    from benchmarks.arrays import copy_all

    copy_all(iter(list(job.items())[:8]), times)
    job.workers_ready()
    job.take_many(copy_all(iter(job.items()), times))


def _memcpy_twice(job: Job) -> None:
    _memcpy(job, times=2)


def _interpreters(job: Job) -> None:
    job.before_workers()
    started = [subprocess.Popen([sys.executable, "-c", "pass"]) for _ in range(job.workers)]
    for process in started:
        process.wait()
    job.take_many(1)


_FORMS: dict[str, Callable[[Job], None]] = {
    "static split": _static_split,
    "longest first": _longest_first,
    "memcpy": _memcpy,
    "memcpy twice": _memcpy_twice,
    "interpreters": _interpreters,
}
