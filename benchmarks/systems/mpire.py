"""mpire at its defaults: it cuts the input into 64 chunks per worker, and needs the input's length for that."""

from __future__ import annotations

from mpire.pool import WorkerPool

from benchmarks.job import Job
from benchmarks.work import warm


def run(job: Job) -> None:
    job.before_workers()
    with WorkerPool(n_jobs=job.workers, keep_alive=True) as pool:
        if not job.cold:
            pool.map(warm, [(job.work,)] * job.workers)
        job.workers_ready()
        # In a tuple of one: mpire would spread a dict over keyword arguments, and a tuple over positional ones.
        items = ((item,) for item in job.items())
        for result in pool.imap_unordered(job.work, items, iterable_len=job.count):
            job.take(result)
