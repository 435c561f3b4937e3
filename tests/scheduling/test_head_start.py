"""With more workers than cores, the first are ready early, and nobody waits for a slow setup."""

from __future__ import annotations

import pytest
from scheduler_desk import Desk, died, input_ended, only, ready, setup_raised, stop, submitted, succeeded, time_passed

from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling.head_start import BREATH_S, HEAD_START_S
from gpu_dispatch.scheduling.inputs import Input, SlotAdded


def starts(actions: list[do.Action]) -> list[int]:
    return [action.slot for action in only(do.StartWorker, actions)]


@pytest.mark.parametrize("cores", [None, 3, 4, 100])
def test_with_enough_cores_all_start_at_once(cores: int | None) -> None:
    assert starts(Desk(slots=3, cores=cores).tell(time_passed)) == [0, 1, 2]


def test_the_others_follow_one_by_one_when_one_is_ready() -> None:
    desk = Desk(slots=5, cores=2)
    desk.tell(time_passed, submitted(1, 2))
    assert desk.tell(ready(1), at=0.03) == [do.SendTasks(1, [1])]
    assert desk.tell(ready(0), at=0.03) == [do.SendTasks(0, [2])]
    assert desk.watch(1.0) == [
        (pytest.approx(0.03 + BREATH_S), do.StartWorker(2)),
        (pytest.approx(0.03 + 2 * BREATH_S), do.StartWorker(3)),
        (pytest.approx(0.03 + 3 * BREATH_S), do.StartWorker(4)),
    ]


@pytest.mark.parametrize("end", [setup_raised(0), died(slot=0)])
def test_the_others_follow_when_one_has_failed(end: Input) -> None:
    desk = Desk(slots=2, cores=1)
    assert starts(desk.tell(time_passed)) == [0]
    desk.tell(end, at=0.03)
    assert starts(desk.wait(0.03 + 2 * BREATH_S)) == [1]


def test_nobody_waits_for_a_slow_setup() -> None:
    desk = Desk(slots=5, cores=2)
    assert starts(desk.tell(time_passed, at=7.0)) == [0, 1]
    story = desk.watch(60.0)
    assert [(at, action.slot) for at, action in story if isinstance(action, do.StartWorker)] == [
        (pytest.approx(7.0 + HEAD_START_S), 2),
        (pytest.approx(7.0 + HEAD_START_S + BREATH_S), 3),
        (pytest.approx(7.0 + HEAD_START_S + 2 * BREATH_S), 4),
    ]


def test_what_crashed_is_started_again_at_once() -> None:
    desk = Desk(slots=5, cores=2)
    desk.tell(time_passed, submitted(1, 2, 3, 4))
    desk.tell(ready(0), at=0.03)
    assert starts(desk.tell(died(1, slot=0), at=0.031)) == [0]
    assert starts(desk.wait(0.05)) == [2, 3, 4]


def test_a_worker_that_comes_later_is_not_held_up_by_those_that_load() -> None:
    desk = Desk(slots=2, cores=1)
    desk.tell(time_passed)
    desk.wait(1.0)
    assert starts(desk.tell(SlotAdded())) == [2]


def test_the_users_own_limit_still_holds() -> None:
    desk = Desk(slots=4, cores=2, setup_concurrency=1)
    assert starts(desk.tell(time_passed)) == [0]
    assert not desk.wait(1.0)
    assert starts(desk.tell(ready(0))) == [1]


def test_a_run_that_is_stopped_starts_no_more() -> None:
    desk = Desk(slots=4, cores=1)
    desk.tell(time_passed)
    assert not starts(desk.tell(stop(drain_until=5.0), at=0.01))
    assert not starts(desk.wait(1.0))
    assert desk.tell(died(slot=0))[-1] == do.EndRun(False)


def test_a_run_that_is_over_starts_none_later() -> None:
    desk = Desk(slots=3, cores=1)
    desk.tell(time_passed, submitted(1), input_ended)
    assert desk.tell(ready(0), at=0.03) == [do.SendTasks(0, [1])]
    assert desk.tell(succeeded(1, slot=0), at=0.031)[-1] == do.FinishWorker(0)
    assert not starts(desk.wait(10.0))


def test_in_a_run_that_is_over_at_once_every_worker_is_still_set_up_and_cleaned_up() -> None:
    desk = Desk(slots=4, cores=2)
    desk.tell(time_passed, submitted(1), input_ended)
    desk.tell(ready(0), at=0.03)
    done = desk.tell(succeeded(1, slot=0), at=0.031)
    assert starts(done) == [2, 3]
    assert [action.slot for action in only(do.FinishWorker, done)] == [0]
    for slot in (1, 2, 3):
        assert only(do.FinishWorker, desk.tell(ready(slot), at=0.05)) == [do.FinishWorker(slot)]
