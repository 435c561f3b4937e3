"""Whole runs in virtual time: whatever dies, hangs or lies, every task is settled once and the run ends.

To look at a seed that failed: ``chaotic_run(seed).run()``.
"""

from __future__ import annotations

import os
import random

import pytest
from chaotic_runs import LONGEST_S, chaotic_run

from gpu_dispatch.options import RetryPolicy
from gpu_dispatch.scheduling import SchedulerSettings
from gpu_dispatch.testing.simulation import Execution, Faults, Simulation

SEEDS = int(os.environ.get("SIMULATED_RUNS", "2000"))  # a million of them, for a night
CHUNKS = 10


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_task_is_settled_once_whatever_goes_wrong(chunk: int) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        run = chaotic_run(seed)
        report = run.run(at_most_s=LONGEST_S)
        assert sum(report.words.values()) <= run.ledger.submitted


def test_the_chaos_is_chaotic() -> None:
    """The seeds above do meet what they are meant to meet."""
    totals = dict.fromkeys(("success", "error", "timeout", "cancelled", "kills", "retired", "moves", "recalls"), 0)
    for seed in range(200):
        report = chaotic_run(seed, check_each_step=False).run(at_most_s=LONGEST_S)
        for word, count in report.words.items():
            totals[word] += count
        totals["kills"] += report.kills
        totals["retired"] += len(report.retired)
        totals["moves"] += len(report.moves)
        totals["recalls"] += report.recalls
    assert min(totals.values()) > 20, totals


def test_the_same_seed_is_the_same_run() -> None:
    first, again = (chaotic_run(7).run(at_most_s=LONGEST_S) for _ in range(2))
    assert first == again


def test_a_thousand_workers_live_through_a_day_of_kills_and_stragglers() -> None:
    def execution(task: int, dice: random.Random) -> Execution:
        if dice.random() < 0.001:
            return Execution(1.0, "crash")
        straggles = dice.random() < 0.01
        return Execution(dice.lognormvariate(7.9, 0.5) * (5.0 if straggles else 1.0))

    settings = SchedulerSettings(slots=1_000, retry=RetryPolicy(retries=3), setup_concurrency=64)
    faults = Faults(mean_life_s=40_000.0, setup_dies=0.02)
    report = Simulation(
        settings, 24_000, execution, seed=1, faults=faults, queue_size=4_096, setup_s=60.0, cleanup_s=1.0
    ).run()

    assert report.words["success"] > 23_700
    assert sum(report.words.values()) == 24_000
    assert 70_000 < report.makespan_s < 110_000  # about a day
    assert report.starts > 2_000  # workers were killed all the time
    assert not report.no_worker_left
