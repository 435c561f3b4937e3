"""One measurement, in a process of its own: ``python -m benchmarks.child LOAD SYSTEM COUNT ROUND``.

Prints one line of JSON, last on standard output; whatever a library prints before it does not matter.
"""

from __future__ import annotations

import json
import sys

from benchmarks.job import Job
from benchmarks.loads import BY_NAME, Figure, Load, ideal_makespan_s
from benchmarks.overtaken import longest_overtaken_s
from benchmarks.samples import Sample
from benchmarks.systems import BY_NAME as SYSTEM

FAST_S = 0.5
"""Anything shorter is a fast task: the stragglers sleep a whole second."""


def measure(load: Load, system: str, count: int, round_: int) -> Sample:
    job = load.make(count, round_)
    if load.figure is Figure.DECISION:
        from benchmarks import scheduler_cost  # the one load that no other system can be asked for

        scheduler_cost.run(job)
    else:
        SYSTEM[system].adapter()(job)
    return Sample(load.name, system, round_, count, job.elapsed_s, value_of(load, job))


def value_of(load: Load, job: Job) -> float:
    if load.figure is Figure.RATE:
        return job.count / job.elapsed_s
    if load.figure is Figure.MAKESPAN:
        return job.elapsed_s / ideal_makespan_s(job.items(), job.workers)
    if load.figure is Figure.OVERTAKEN:
        return longest_overtaken_s(job.results, FAST_S) * 1e3
    if load.figure is Figure.FIRST:
        return job.elapsed_s * 1e3
    return job.elapsed_s / job.count * 1e6


def main() -> None:
    load, system, count, round_ = sys.argv[1:5]
    sample = measure(BY_NAME[load], system, int(count), int(round_))
    print(json.dumps(sample.as_dict()), flush=True)


if __name__ == "__main__":
    main()
