"""What is measured: one Load per row of the table.

Steady loads start the clock when every worker is up (where the system allows that: all of them do) and stop it
with the last result: throughput. Cold loads include starting the workers; in no load is importing a library part of
the figure, as everybody's adapter imports its own before the clock starts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from benchmarks import work
from benchmarks.job import Job


class Figure(Enum):
    """What the number of a load means, and which direction is better."""

    RATE = "items/s"
    MAKESPAN = "× the ideal"
    OVERTAKEN = "ms overtaken"
    FIRST = "ms to the first result"
    DECISION = "µs a task"

    @property
    def more_is_better(self) -> bool:
        return self is Figure.RATE


PEERS = ("pool", "concurrent_futures", "mpire", "joblib", "loky", "pebble", "ray_actors", "ray_data")
"""Other people's systems at their defaults: the best of these is the 'best peer' of a load."""
ALL = ("gpu_dispatch", "shared_queue", *PEERS, "limit")


@dataclass(frozen=True, slots=True)
class Load:
    name: str
    title: str
    figure: Figure
    workers: int
    make: Callable[[int, int], Job]
    """(count, round) → the job; the same for every system of that round."""
    count: int
    """How many items; with ``seconds``, how many the pilot starts with."""
    seconds: float | None = None
    """Let a pilot find the count that takes each system about this long. ``None``: exactly ``count``."""
    most: int = 2_000_000
    systems: tuple[str, ...] = ALL
    limit: str = ""
    """What the limit does here, in words."""


# --- items -------------------------------------------------------------------------------------------------


def _empty(count: int, _round: int) -> Job:
    return Job(work.nothing, lambda: range(count), count, 2)


def _empty_wide(count: int, _round: int) -> Job:
    return Job(work.nothing, lambda: range(count), count, 2, queue_size=16_384)


def _empty_call(count: int, _round: int) -> Job:
    return Job(work.nothing, lambda: range(count), count, 2, cold=True)


def record(number: int) -> dict[str, Any]:
    """About 300 bytes once pickled. As when they were read from a file, no two have a text in common; only the names of
    the fields are written once where many are pickled together."""
    return {
        "id": number,
        "path": f"/data/corpus/part-{number % 97:04d}/utterance-{number:09d}.flac",
        "speaker": f"speaker-{number % 1009:05d}",
        "text": f"no. {number}: the quick brown fox jumps over the lazy dog, and does it once again",
        "duration": 3.25 + number % 7,
        "rate": 16000,
        "tags": ["train", "clean"],
        "score": 0.5,
        "label": "",
    }


def _records(count: int, _round: int) -> Job:
    return Job(work.label, lambda: (record(i) for i in range(count)), count, 2)


def _arrays(nbytes: int, work_name: str, limit: str) -> Callable[[int, int], Job]:
    def make(count: int, _round: int) -> Job:
        from benchmarks import arrays  # not at the top: numpy would slow every other load's workers down

        ring = arrays.ring(nbytes)
        function = getattr(arrays, work_name)
        return Job(function, lambda: arrays.stream(ring, count), count, 2, limit=limit, nbytes=nbytes)

    return make


def _sleeps(seconds: float) -> Callable[[int, int], Job]:
    return lambda count, _round: Job(work.sleep, lambda: [seconds] * count, count, 4)


def lognormal_durations(count: int, seed: int) -> list[float]:
    """Median 10 ms, σ = 1.2: most are short, the longest is some 35 times the median."""
    rng = random.Random(seed)
    return [0.010 * rng.lognormvariate(0.0, 1.2) for _ in range(count)]


def _duration(seconds: float) -> float:
    return seconds


def _lognormal(with_cost: bool) -> Callable[[int, int], Job]:
    def make(count: int, round_: int) -> Job:
        durations = lognormal_durations(count, round_)
        return Job(
            work.sleep, lambda: durations, count, 4, cost=_duration if with_cost else None, limit="longest first"
        )

    return make


def straggling_durations(count: int, seed: int) -> list[float]:
    """1 ms each, but one in 250, anywhere, takes a second."""
    slow = set(random.Random(seed).sample(range(count), count // 250))
    return [1.0 if i in slow else 0.001 for i in range(count)]


def _stragglers(count: int, round_: int) -> Job:
    durations = straggling_durations(count, round_)
    return Job(work.sleep_and_say_when, lambda: enumerate(durations), count, 4, keep=True)


def _first(count: int, _round: int) -> Job:
    return Job(work.nothing, lambda: range(count), count, 4, cold=True, until=1, limit="interpreters")


def _decisions(slots: int) -> Callable[[int, int], Job]:
    return lambda count, _round: Job(work.nothing, lambda: range(count), count, slots)


# --- the table ---------------------------------------------------------------------------------------------

_SLEEPERS = ("gpu_dispatch", "shared_queue", "pool", "mpire", "limit")

LOADS: tuple[Load, ...] = (
    Load(
        "empty", "empty tasks, int → int", Figure.RATE, 2, _empty, 2_000, 0.6,
        systems=(*ALL, "pool_64"), limit="each process loops over its half of the numbers",
    ),
    Load(
        "empty_wide", "the same with `queue_size=16384`", Figure.RATE, 2, _empty_wide, 2_000, 0.6,
        systems=("gpu_dispatch", "shared_queue"),
    ),
    Load(
        "empty_call", "one call with 20,000 empty tasks (cold)", Figure.RATE, 2, _empty_call, 20_000,
        systems=("gpu_dispatch", "shared_queue", "pool", "concurrent_futures", "mpire", "joblib", "pebble"),
    ),
    Load(
        "records", "300-byte dict records in and out", Figure.RATE, 2, _records, 2_000, 0.6, most=400_000,
        systems=(*ALL, "pool_64"), limit="each process loops over its half of the records",
    ),
    Load(
        "arrays_in", "600 KB float32 arrays in, a float out", Figure.RATE, 2,
        _arrays(600_000, "ends", "memcpy"), 100, 0.6, most=40_000, limit="memcpy of each array, one process",
    ),
    Load(
        "arrays_io", "600 KB arrays in and out", Figure.RATE, 2,
        _arrays(600_000, "shifted", "memcpy twice"), 100, 0.6, most=40_000,
        limit="memcpy of each array twice, one process",
    ),
    Load(
        "big_arrays", "25 MB arrays in, a float out", Figure.RATE, 2,
        _arrays(25_000_000, "ends", "memcpy"), 8, 2.0, most=2_000, limit="memcpy of each array, one process",
    ),
    Load(
        "sleep_1ms", "tasks of 1 ms", Figure.RATE, 4, _sleeps(0.001), 8_000,
        systems=_SLEEPERS, limit="each process sleeps through its quarter",
    ),
    Load(
        "sleep_10ms", "tasks of 10 ms", Figure.RATE, 4, _sleeps(0.010), 800,
        systems=("gpu_dispatch", "pool", "limit"), limit="each process sleeps through its quarter",
    ),
    Load(
        "lognormal", "400 lognormal tasks, σ = 1.2", Figure.MAKESPAN, 4, _lognormal(False), 400,
        systems=("gpu_dispatch", "pool", "limit"), limit="split beforehand, longest first, durations known",
    ),
    Load(
        "lognormal_cost", "the same with `cost=`", Figure.MAKESPAN, 4, _lognormal(True), 400,
        systems=("gpu_dispatch",),
    ),
    Load(
        "stragglers", "2,000 tasks of 1 ms with rare 1 s stragglers", Figure.OVERTAKEN, 4, _stragglers, 2_000,
        systems=("gpu_dispatch", "pool", "mpire"),
    ),
    Load(
        "first_result", "start 4 workers, first result (cold, but imported)", Figure.FIRST, 4, _first, 8,
        systems=("gpu_dispatch", "shared_queue", "pool", "concurrent_futures", "mpire", "joblib", "pebble", "limit"),
        limit="4 bare interpreters started at once, until all have ended",
    ),
    Load(
        "scheduler_8", "the pure scheduler, 8 slots", Figure.DECISION, 8, _decisions(8), 100_000,
        systems=("gpu_dispatch",),
    ),
    Load(
        "scheduler_1024", "the pure scheduler, 1,024 slots", Figure.DECISION, 1024, _decisions(1024), 300_000,
        systems=("gpu_dispatch",),
    ),
)  # fmt: skip
BY_NAME = {load.name: load for load in LOADS}


def ideal_makespan_s(items: Iterable[float], workers: int) -> float:
    """No schedule can be shorter than this: all workers busy throughout, or the longest task alone."""
    durations = list(items)
    return max(sum(durations) / workers, max(durations))
