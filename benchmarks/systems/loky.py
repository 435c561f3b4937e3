"""loky's reusable executor, used directly."""

from __future__ import annotations

from loky import get_reusable_executor

from benchmarks.job import Job
from benchmarks.work import warm


def run(job: Job) -> None:
    job.before_workers()
    executor = get_reusable_executor(max_workers=job.workers)
    if not job.cold:
        list(executor.map(warm, [job.work] * (2 * job.workers)))
    job.workers_ready()
    for result in executor.map(job.work, job.items()):
        job.take(result)
    executor.shutdown(wait=True)
