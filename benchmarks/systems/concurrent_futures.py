"""concurrent.futures.ProcessPoolExecutor at its defaults."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

from benchmarks.job import Job
from benchmarks.work import warm


def run(job: Job) -> None:
    job.before_workers()
    with ProcessPoolExecutor(job.workers) as executor:
        if not job.cold:
            list(executor.map(warm, [job.work] * job.workers))
        job.workers_ready()
        for result in executor.map(job.work, job.items()):
            job.take(result)
