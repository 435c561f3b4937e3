"""Ray actors behind Ray's own ActorPool: one call per task."""

from __future__ import annotations

from typing import Any

from benchmarks.job import Job
from benchmarks.systems.ray_session import ray_session


def run(job: Job) -> None:
    job.before_workers()
    with ray_session(job.workers):
        import ray
        from ray.util import ActorPool

        class Actor:
            def __init__(self, work: Any) -> None:
                self.work = work

            def process(self, item: Any) -> Any:
                return self.work(item)

            def ready(self) -> None:
                pass

        remote = ray.remote(num_cpus=1)(Actor)
        actors = [remote.remote(job.work) for _ in range(job.workers)]
        if not job.cold:
            ray.get([actor.ready.remote() for actor in actors])
        job.workers_ready()
        for result in ActorPool(actors).map_unordered(lambda actor, item: actor.process.remote(item), job.items()):
            job.take(result)
