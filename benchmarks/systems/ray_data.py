"""Ray Data: the items as a dataset, a map over its rows, the rows read back. Blocks are its own choice.

It has no iterable as input: the items are put into the object store before the clock starts, which no other system
gets for free.
"""

from __future__ import annotations

from typing import Any

from benchmarks.job import Job
from benchmarks.systems.ray_session import ray_session


def run(job: Job) -> None:
    job.before_workers()
    with ray_session(job.workers):
        import ray

        work = job.work

        def apply(row: dict[str, Any]) -> dict[str, Any]:
            return {"item": work(row["item"])}

        if not job.cold:
            ray.data.range(2 * job.workers).map(lambda row: row).materialize()
        dataset = ray.data.from_items([{"item": item} for item in job.items()])
        job.workers_ready()
        for row in dataset.map(apply).iter_rows():
            job.take(row["item"])
