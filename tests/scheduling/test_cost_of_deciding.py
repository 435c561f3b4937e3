"""What a decision costs, counted in executed lines: a figure that no busy machine can spoil.

Seconds are measured by ``python -m benchmarks.scheduler_cost``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from gpu_dispatch.scheduling import SchedulerSettings
from gpu_dispatch.testing.simulation import Execution, Simulation


@contextmanager
def counted_lines() -> Iterator[Callable[[], int]]:
    lines = 0

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        yield lambda: lines
    finally:
        sys.settrace(before)


def lines_per_task(slots: int, tasks: int, task_s: float, *, slow_input: bool = False, **settings: Any) -> float:
    simulation = Simulation(
        SchedulerSettings(slots=slots, task_timeout=30.0, **settings),
        tasks,
        lambda task, dice: Execution(task_s),
        queue_size=16 * slots,
        pull_s=1.1 * task_s / slots if slow_input else 0.0,
    )
    decide, total = simulation.scheduler.handle, 0

    def handle(what: Any, now: float) -> Any:
        nonlocal total
        with counted_lines() as lines:
            actions = decide(what, now)
        total += lines()
        return actions

    simulation.scheduler.handle = handle  # type: ignore[method-assign]
    report = simulation.run()
    assert report.words == {"success": tasks}
    return total / tasks


FRAMES_OF_ONE, FRAMES_OF_FOUR = 0.1, 0.001


@pytest.mark.parametrize("task_s", [FRAMES_OF_ONE, FRAMES_OF_FOUR])
@pytest.mark.parametrize("slow_input", [False, True])
def test_a_decision_costs_the_same_with_a_few_slots_and_with_hundreds(task_s: float, slow_input: bool) -> None:
    few = lines_per_task(8, 400, task_s, slow_input=slow_input)
    many = lines_per_task(256, 4_000, task_s, slow_input=slow_input)
    assert many <= 1.5 * few


@pytest.mark.parametrize("task_s", [FRAMES_OF_ONE, FRAMES_OF_FOUR])
def test_a_decision_costs_the_same_with_few_tasks_and_with_many(task_s: float) -> None:
    assert lines_per_task(8, 3_000, task_s) <= 1.05 * lines_per_task(8, 1_000, task_s)


def test_decisions_are_cheap() -> None:
    """A line takes some 25 ns."""
    assert lines_per_task(8, 1_000, FRAMES_OF_ONE) < 130
    assert lines_per_task(8, 1_000, FRAMES_OF_FOUR) < 45
    assert lines_per_task(8, 10_000, 0.00001) < 18
