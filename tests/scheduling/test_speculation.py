"""At the end of a run idle slots may run second copies; each task is still told once."""

from __future__ import annotations

import pytest
from scheduler_desk import (
    Desk,
    died,
    failed,
    given_back,
    input_ended,
    only,
    running,
    send,
    settled,
    stop,
    submitted,
    succeed,
    succeeded,
)

from gpu_dispatch.scheduling import actions as do


@pytest.fixture
def race() -> Desk:
    """Slot 0 has been running task 2 for long; the idle slot 1 has been given a copy."""
    desk = Desk(slots=2, speculate=True, retries=0).with_ready_workers()
    desk.tell(submitted(0, 1))
    desk.tell(succeeded(0, slot=0), succeeded(1, slot=1), at=0.1)
    desk.tell(submitted(2), input_ended, at=0.2)
    assert desk.held(0) == [2]
    assert desk.wait(0.29) == []
    assert desk.wait(0.31) == [send(1, 2)]  # by its own mean it would have been done by now
    assert desk.scheduler.copies() == {2: 1}
    assert desk.scheduler.places() == {2: ["slot 0"]}
    return desk


def test_the_first_answer_wins_and_the_slower_worker_is_not_waited_for(race: Desk) -> None:
    killed = do.KillWorker(0, "another worker was faster, and the run is over")
    assert race.tell(succeeded(2, slot=1)) == [succeed(1, 2), killed, do.FinishWorker(1)]
    assert race.tell(died(2, slot=0)) == []


def test_the_original_may_win_too(race: Desk) -> None:
    actions = race.tell(succeeded(2, slot=0))
    assert succeed(0, 2) in actions
    assert [a.slot for a in only(do.KillWorker, actions)] == [1]


@pytest.mark.parametrize("loser", [0, 1])
def test_a_copy_that_fails_leaves_the_word_to_the_other(race: Desk, loser: int) -> None:
    assert not settled(race.tell(failed(2, slot=loser)))
    assert race.scheduler.places() == {2: [f"slot {1 - loser}"]}
    assert race.scheduler.copies() == {}
    assert succeed(1 - loser, 2) in race.tell(succeeded(2, slot=1 - loser))


@pytest.mark.parametrize("loser", [0, 1])
def test_a_copy_whose_worker_dies_leaves_the_word_to_the_other(race: Desk, loser: int) -> None:
    assert not settled(race.tell(died(2, slot=loser)))
    assert succeed(1 - loser, 2) in race.tell(succeeded(2, slot=1 - loser))


def test_the_last_copy_left_decides(race: Desk) -> None:
    race.tell(failed(2, slot=1))
    assert settled(race.tell(failed(2, slot=0))) == {2: "error"}


def test_a_task_is_copied_once(race: Desk) -> None:
    race.tell(failed(2, slot=1), at=1.0)
    assert not only(do.SendTasks, race.wait(100.0))


def test_the_slower_copy_s_answer_means_nothing() -> None:
    desk = _race_beside_a_long_task()
    desk.tell(succeeded(3, slot=1))
    assert not settled(desk.tell(failed(3, slot=0)))
    assert desk.phase(0) == "ready"


def test_the_worker_of_the_slower_copy_goes_on_when_there_is_something_else() -> None:
    desk = _race_beside_a_long_task()
    assert not only(do.KillWorker, desk.tell(succeeded(3, slot=1)))
    assert not [a for a in only(do.SendTasks, desk.tell(failed(4, slot=2))) if a.slot == 0]  # it is still busy
    desk.tell(succeeded(3, slot=0))
    assert desk.phase(0) == "ready"


def _race_beside_a_long_task() -> Desk:
    """Slots 0 and 1 both run task 3; slot 2 runs task 4, which will be retried."""
    desk = Desk(slots=3, speculate=True, retries=1).with_ready_workers()
    desk.tell(submitted(0, 1, 2))
    for slot in range(3):
        desk.tell(succeeded(slot, slot=slot), at=0.1)
    desk.tell(submitted(3), at=0.2)
    desk.tell(submitted(5), at=0.2)
    desk.tell(submitted(4), input_ended, at=0.3)
    desk.tell(succeeded(5, slot=1), at=0.35)
    assert desk.scheduler.copies() == {3: 1}
    return desk


def test_the_word_of_a_timeout_is_left_to_the_copy_that_has_time_left() -> None:
    desk = Desk(slots=2, speculate=True, task_timeout=1.0, timeout_grace=0.5).with_ready_workers()
    desk.tell(submitted(1), input_ended)
    assert desk.scheduler.copies() == {1: 1}
    assert not settled(desk.tell(running(1, slot=0, since=0.0), at=1.2))
    assert only(do.KillWorker, desk.tell(running(1, slot=0, since=0.0), at=1.5))
    assert not settled(desk.tell(died(1, slot=0)))
    assert settled(desk.tell(running(1, slot=1, since=0.4), at=1.6)) == {1: "timeout"}


def test_a_stop_ends_both(race: Desk) -> None:
    race.tell(stop(drain_until=5.0), at=1.0)
    assert len(only(do.KillWorker, race.wait(5.0))) == 2
    assert not settled(race.tell(died(2, slot=0)))
    assert settled(race.tell(died(2, slot=1))) == {2: "cancelled"}
    assert race.scheduler.ended


def test_after_a_stop_nobody_waits_for_the_slower_copy(race: Desk) -> None:
    race.tell(stop(drain_until=5.0), at=1.0)
    actions = race.tell(succeeded(2, slot=1), at=1.1)
    assert [a.slot for a in only(do.KillWorker, actions)] == [0]
    assert only(do.FinishWorker, actions) == [do.FinishWorker(1)]


def test_a_slower_copy_that_is_given_back_unstarted_leaves_a_worker_like_any_other() -> None:
    desk = _race_beside_a_long_task()
    desk.tell(succeeded(3, slot=1), given_back(3, slot=0))
    assert only(do.FinishWorker, desk.tell(succeeded(4, slot=2))) == [do.FinishWorker(slot) for slot in (0, 1, 2)]


def test_nothing_is_copied_while_there_is_other_work_or_unless_asked_for() -> None:
    for desk in (Desk(slots=2, speculate=True).with_ready_workers(), Desk(slots=2).with_ready_workers()):
        desk.tell(submitted(1))
        desk.wait(5.0)
        assert desk.scheduler.copies() == {}
    desk.tell(input_ended)
    assert desk.scheduler.copies() == {}
