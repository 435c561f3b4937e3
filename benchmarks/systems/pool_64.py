"""multiprocessing.Pool with a chunk set by hand: an exception or a crash costs 64 tasks, and so does a slow one."""

from __future__ import annotations

from benchmarks.job import Job
from benchmarks.systems import pool


def run(job: Job) -> None:
    pool.run(job, chunksize=64)
