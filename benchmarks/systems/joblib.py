"""joblib.Parallel at its defaults: processes by loky, automatic batches, arrays above 1 MB memory-mapped."""

from __future__ import annotations

from joblib import Parallel, delayed

from benchmarks.job import Job
from benchmarks.work import warm


def run(job: Job) -> None:
    job.before_workers()
    # 'generator_unordered' hands results over as they come, like everybody else here; a list would not.
    with Parallel(n_jobs=job.workers, return_as="generator_unordered") as parallel:
        if not job.cold:
            list(parallel(delayed(warm)(job.work) for _ in range(2 * job.workers)))
        job.workers_ready()
        work = delayed(job.work)
        for result in parallel(work(item) for item in job.items()):
            job.take(result)
