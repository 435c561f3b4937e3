"""Every measurement in a fresh process, systems interleaved within a round, so that a busy moment of the machine
hits them alike."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

from benchmarks.loads import Load
from benchmarks.samples import Sample

CHILD_TIMEOUT_S = 90.0
LEAST_SHARE = 0.4
"""A pilot that took at least this share of the wanted time is good enough to extrapolate from."""


def measure_all(
    loads: Sequence[Load], systems_of: Callable[[Load], Sequence[str]], rounds: int, scale: float
) -> Iterator[Sample]:
    for load in loads:
        systems = systems_of(load)
        counts = {}
        for system in systems:
            count, failed = find_count(load, system, scale)
            if failed is None:
                counts[system] = count
            else:
                yield failed
        for round_ in range(rounds):
            for system in rotated(list(counts), round_):
                yield measure_in_child(load.name, system, counts[system], round_)


def rotated(names: list[str], by: int) -> list[str]:
    """Nobody is always the first after a pause, or always behind the same neighbour's dirty caches."""
    by %= max(1, len(names))
    return names[by:] + names[:by]


def find_count(load: Load, system: str, scale: float) -> tuple[int, Sample | None]:
    """How many items keep this system busy for the wanted time; rates differ by a factor of a thousand."""
    if load.seconds is None:
        return max(1, round(load.count * min(scale, 1.0))), None
    wanted_s = load.seconds * scale
    count = load.count
    while True:
        sample = measure_in_child(load.name, system, count, -1)
        if sample.error is not None:
            return 0, sample
        enough = next_count(count, sample.elapsed_s, wanted_s, load.most)
        if sample.elapsed_s >= LEAST_SHARE * wanted_s or enough <= count:
            return enough, None
        count = enough


def next_count(count: int, elapsed_s: float, wanted_s: float, most: int) -> int:
    growth = min(20.0, wanted_s / max(elapsed_s, 1e-6))  # a pilot is slower than the real thing: do not overshoot
    return max(1, min(most, round(count * growth)))


def measure_in_child(load: str, system: str, count: int, round_: int) -> Sample:
    command = [sys.executable, "-m", "benchmarks.child", load, system, str(count), str(round_)]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=_environment()
    )
    try:
        out, err = child.communicate(timeout=CHILD_TIMEOUT_S)
        return read_sample(out, err, load, system, round_)
    except subprocess.TimeoutExpired:
        return Sample(load, system, round_, error=f"no result after {CHILD_TIMEOUT_S:g} s")
    finally:
        end_session(child)


def read_sample(out: str, err: str, load: str, system: str, round_: int) -> Sample:
    try:
        return Sample(**json.loads(out.strip().splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        lines = (err.strip() or out.strip() or "ended without a word").splitlines()
        return Sample(load, system, round_, error=lines[-1][:300])


def end_session(child: subprocess.Popen[str]) -> None:
    """Also what the system under test may have left behind; the session is the child's own."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def _environment() -> dict[str, str]:
    # One thread per process: numpy's own threads would compete with the workers for the cores.
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
