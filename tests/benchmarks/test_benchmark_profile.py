"""The meter behind the per-stage profile: it must count each microsecond once, and name functions that exist."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.profile_stages import IN_PARENT, IN_WORKER, RUNNER, Meter, Stage, locate, per_task_us


class Clock:
    """Stands still unless told otherwise."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.now += seconds

        return run


@pytest.mark.parametrize("stage", [*IN_PARENT, *IN_WORKER], ids=lambda stage: stage.name)
def test_every_stage_names_functions_that_the_core_still_has(stage: Stage) -> None:
    for target in stage.targets:
        owner, name = locate(target)
        assert callable(getattr(owner, name))


def test_time_in_a_wrapped_function_is_not_counted_again_around_it() -> None:
    clock = Clock()
    meter = Meter(clock)
    inner = meter.wrap("inner", clock.work(3.0))

    def around() -> None:
        clock.work(1.0)()
        inner()
        inner()

    meter.wrap("outer", around)()

    assert meter.as_dict() == {"inner": [6.0, 2], "outer": [1.0, 1]}


def test_time_is_counted_when_the_function_raises() -> None:
    clock = Clock()
    meter = Meter(clock)

    def fail() -> None:
        clock.work(2.0)()
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        meter.wrap("stage", fail)()

    assert meter.as_dict() == {"stage": [2.0, 1]}


def test_the_cost_of_the_meter_is_taken_off() -> None:
    parent = {"scheduler": [1.0, 10]}
    worker = {RUNNER: [3.0, 1], "worker: your code": [2.0, 100]}

    found = per_task_us([parent, worker, worker], tasks=1_000_000, meter_cost=(0.01, 0.005))

    assert found == pytest.approx({"scheduler": 0.9, RUNNER: 4.98, "worker: your code": 2.0})
