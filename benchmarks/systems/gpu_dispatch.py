"""gpu_dispatch, with what a careful user has on: a timeout on every task, crash recovery, errors that are raised.

Everybody's library is imported before the clock starts; most of this one is imported when the first Dispatcher is made,
which is after it, so the adapter does that by hand. In a fresh process it is part of the time to the first result.

``run()`` starts its workers itself. For a steady load the generator waits until all of them are ready, and starts the
clock before it gives out the first item.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import gpu_dispatch.assembly  # noqa: F401 -- see above
from benchmarks.function_worker import FunctionWorker
from benchmarks.job import Job
from gpu_dispatch import Dispatcher

TASK_TIMEOUT_S = 30.0


def run(job: Job) -> None:
    job.before_workers()
    extra: dict[str, Any] = {} if job.cost is None else {"cost": job.cost}
    dispatcher = Dispatcher(FunctionWorker, list(range(job.workers)), job.queue_size, **extra)
    take = job.take

    def on_success(_task_id: int, result: Any, _worker_id: int) -> None:
        take(result)

    def on_failure(task_id: int, reason: object, _worker_id: int) -> None:
        raise RuntimeError(f"task {task_id} failed: {reason}")

    dispatcher.run(
        _items_once_ready(dispatcher, job),
        on_success,
        on_error=on_failure,
        on_timeout=on_failure,
        task_timeout=TASK_TIMEOUT_S,
        function=job.work,
    )


def _items_once_ready(dispatcher: Dispatcher, job: Job) -> Iterator[Any]:
    if not job.cold:
        while not _all_ready(dispatcher, job.workers):
            time.sleep(0.001)
    job.workers_ready()
    yield from job.items()


def _all_ready(dispatcher: Dispatcher, workers: int) -> bool:
    status = [worker["status"] for worker in dispatcher.get_stats()["gpu_status"].values()]
    return len(status) == workers and all(s in ("idle", "processing") for s in status)
