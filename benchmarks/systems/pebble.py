"""pebble.ProcessPool at its defaults."""

from __future__ import annotations

from pebble import ProcessPool

from benchmarks.job import Job
from benchmarks.work import warm


def run(job: Job) -> None:
    job.before_workers()
    with ProcessPool(max_workers=job.workers) as pool:
        if not job.cold:
            list(pool.map(warm, [job.work] * job.workers).result())
        job.workers_ready()
        for result in pool.map(job.work, job.items()).result():
            job.take(result)
