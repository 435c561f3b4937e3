"""The obvious design: one task queue and one result queue shared by all workers, one message per task.

    generator ─► feeder thread ─► Queue(maxsize) ─► any worker ─► Queue ─► monitor loop ─► callbacks

Spawned workers, ``signal.alarm`` timeouts, poison pills at the end, a monitor that polls. Nothing is tuned.
"""

from __future__ import annotations

import math
import multiprocessing
import queue
import signal
import threading
import traceback
from dataclasses import dataclass
from typing import Any

from benchmarks.job import Job

TASK_TIMEOUT_S = 30.0
POLL_S = 0.1


@dataclass
class Success:
    task_id: int
    data: Any
    worker_id: int


@dataclass
class Error:
    task_id: int
    error: str
    worker_id: int


@dataclass
class Timeout:
    task_id: int
    timeout: float
    worker_id: int


def run(job: Job) -> None:
    job.before_workers()
    spawn = multiprocessing.get_context("spawn")
    tasks = spawn.Queue(job.queue_size)
    results = spawn.Queue()
    ready = spawn.Semaphore(0)
    workers = [
        spawn.Process(target=_worker_main, args=(i, job.work, tasks, results, ready, TASK_TIMEOUT_S))
        for i in range(job.workers)
    ]
    for worker in workers:
        worker.start()
    if not job.cold:
        for _ in workers:
            ready.acquire()
    job.workers_ready()
    feeder = threading.Thread(target=_feed, args=(job, tasks))
    feeder.start()
    _monitor(job, results)
    feeder.join()
    for worker in workers:
        worker.join()


def _feed(job: Job, tasks: Any) -> None:
    for task_id, item in enumerate(job.items()):
        tasks.put((task_id, item))
    for _ in range(job.workers):
        tasks.put(None)


def _monitor(job: Job, results: Any) -> None:
    settled = 0
    while settled < job.count:
        try:
            message = results.get(timeout=POLL_S)
        except queue.Empty:
            continue
        settled += 1
        if not isinstance(message, Success):
            raise RuntimeError(f"task failed: {message}")
        job.take(message.data)


def _worker_main(worker_id: int, work: Any, tasks: Any, results: Any, ready: Any, timeout_s: float) -> None:
    signal.signal(signal.SIGALRM, _raise_timeout)
    ready.release()
    while (task := tasks.get()) is not None:
        task_id, item = task
        try:
            signal.alarm(math.ceil(timeout_s))
            data = work(item)
            signal.alarm(0)
            results.put(Success(task_id, data, worker_id))
        except TimeoutError:
            results.put(Timeout(task_id, timeout_s, worker_id))
        except Exception:
            signal.alarm(0)
            results.put(Error(task_id, traceback.format_exc(), worker_id))


def _raise_timeout(_signal: int, _frame: object) -> None:
    raise TimeoutError
