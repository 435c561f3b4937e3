"""Small random runs in which everything goes wrong: the same seed is the same run."""

from __future__ import annotations

import random

from scheduler_consistency import check

from gpu_dispatch.options import RetryPolicy
from gpu_dispatch.scheduling import SchedulerSettings
from gpu_dispatch.scheduling import inputs as told
from gpu_dispatch.testing.simulation import Execution, Faults, Simulation

LONGEST_S = 3_000.0
"""Virtual. Every run of these ends long before, unless something waits for ever."""


def chaotic_run(seed: int, *, check_each_step: bool = True) -> Simulation:
    dice = random.Random(seed)
    settings = _settings(dice)
    tasks = dice.randrange(60)
    simulation = Simulation(
        settings,
        tasks,
        _executions(dice, settings),
        seed=seed,
        faults=_faults(dice),
        costs=[dice.random() for _ in range(tasks)] if dice.random() < 0.3 else None,
        queue_size=dice.choice((1, 4, 1024)),
        pull_s=dice.choice((0.0, 0.0, 0.001)),
        latency_s=dice.choice((0.0, 0.0003, 0.005)),
        after_each=(lambda run: check(run.scheduler)) if check_each_step else None,
    )
    _plan_interventions(simulation, dice)
    return simulation


def _settings(dice: random.Random) -> SchedulerSettings:
    slots = dice.choice((1, 1, 2, 2, 3, 4, 8))
    return SchedulerSettings(
        slots=slots,
        retry=RetryPolicy(retries=dice.choice((0, 0, 1, 3)), backoff_s=dice.choice((0.0, 0.0, 0.1))),
        max_restarts=dice.choice((0, 2, 10)),
        max_crashes=dice.choice((1, 2, 5)),
        task_timeout=dice.choice((None, 0.05, 0.5)),
        timeout_grace=dice.choice((0.0, 0.2, 1.0)),
        setup_timeout=dice.choice((1.0, 5.0)),
        cleanup_timeout=0.5,
        setup_concurrency=dice.choice((None, None, 1, 2)),
        cores=dice.choice((None, 1, 2)),
        batch_size=dice.choice((1, 1, 1, 4, 8)),
        batch_wait_s=dice.choice((0.0, 1.0)),
        overlaps=dice.random() < 0.2,
        fixed_window=dice.choice((None, None, None, 1, 2, 5)),
        speculate=dice.random() < 0.3,
        devices=None if dice.random() < 0.4 else tuple(dice.randrange(2) for _ in range(slots)),
    )


def _executions(dice: random.Random, settings: SchedulerSettings):
    weights = {"success": 50.0}
    for ends, weight in (("error", 5), ("transport", 1), ("poisoned", 2), ("crash", 3), ("ignore", 2)):
        if dice.random() < 0.4:
            weights[ends] = weight * dice.random() * 3
    if settings.task_timeout is not None and dice.random() < 0.5:
        weights["hang"] = 3.0  # without a limit, only the user can end these
    scale_s, sigma = dice.choice((1e-5, 1e-3, 0.02)), dice.choice((0.0, 0.5, 2.0))
    deaf = dice.choice((0.0, 0.0, 0.2))
    always_the_same = dice.random() < 0.5
    known: dict[int, Execution] = {}

    def execution(task: int, dice: random.Random) -> Execution:
        if always_the_same and task in known:
            return known[task]
        (ends,) = dice.choices(list(weights), list(weights.values()))
        known[task] = Execution(scale_s * dice.lognormvariate(0, sigma), ends, dice.random() < deaf)
        return known[task]

    return execution


def _faults(dice: random.Random) -> Faults:
    return Faults(
        mean_life_s=dice.choice((None, None, 0.05, 0.5)),
        mean_until_freeze_s=dice.choice((None, None, 0.3)),
        freeze_s=dice.choice((0.05, 1.0, 15.0)),
        setup_raises=dice.choice((0.0, 0.0, 0.2)),
        setup_dies=dice.choice((0.0, 0.0, 0.2)),
        setup_hangs=dice.choice((0.0, 0.0, 0.1)),
        cleanup_hangs=dice.choice((0.0, 0.2)),
        undead=dice.choice((0.0, 0.0, 0.1)),
        lingers=dice.choice((0.0, 0.5)),
        dawdles=dice.choice((0.0, 0.0, 0.1)),
        dawdle_s=dice.choice((0.03, 0.3)),
    )


def _plan_interventions(simulation: Simulation, dice: random.Random) -> None:
    """Stops, slots that come and go, sizes learnt, an input that ends early: at random, while the run lasts."""

    def at(delay_s: float, fact) -> None:
        simulation.at(delay_s, lambda: simulation.scheduler.ended or simulation.tell(fact()))

    if dice.random() < 0.25:
        for _ in range(dice.choice((1, 2))):
            drain_s = dice.choice((0.0, 0.05, 1.0))
            at(dice.random() * 0.5, lambda drain_s=drain_s: told.StopAsked(simulation.now + drain_s, "Ctrl-C"))
    if dice.random() < 0.25:
        for _ in range(dice.randrange(1, 6)):
            if dice.random() < 0.6:
                device = dice.choice((None, 0, 1))
                at(dice.random() * 0.5, lambda device=device: told.SlotAdded(device))
            else:
                any_slot = dice.random()
                at(
                    dice.random() * 0.5,
                    lambda any_slot=any_slot: told.SlotRemoved(int(any_slot * len(simulation.scheduler.slots))),
                )
    if dice.random() < 0.25:
        for _ in range(dice.randrange(1, 6)):
            slot, size = dice.randrange(simulation.settings.slots), dice.choice((1, 2, 30))
            at(dice.random() * 0.2, lambda slot=slot, size=size: told.BatchSizeLearnt(slot, size))
            at(dice.random() * 0.2, lambda size=size: told.TasksWeighed(size, size << 22))
    if dice.random() < 0.1:
        simulation.at(dice.random() * 0.2, lambda: simulation.scheduler.ended or simulation.end_input())
