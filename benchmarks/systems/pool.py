"""multiprocessing.Pool with ``imap_unordered``: tasks one by one, its default."""

from __future__ import annotations

import multiprocessing

from benchmarks.job import Job
from benchmarks.work import warm


def run(job: Job, chunksize: int = 1) -> None:
    job.before_workers()
    with multiprocessing.Pool(job.workers) as pool:
        if not job.cold:
            pool.map(warm, [job.work] * job.workers, chunksize=1)
        job.workers_ready()
        for result in pool.imap_unordered(job.work, job.items(), chunksize):
            job.take(result)
