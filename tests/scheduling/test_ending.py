"""A run ends once, when all is settled and every worker gone; nothing waits longer than it was told to."""

from __future__ import annotations

from scheduler_desk import (
    Desk,
    died,
    failed,
    given_back,
    input_ended,
    only,
    ready,
    settled,
    setup_raised,
    stop,
    submitted,
    succeed,
    succeeded,
    time_passed,
)

from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told

finished = told.WorkerFinished


def test_workers_clean_up_when_all_is_done_and_then_the_run_ends(two_slots: Desk) -> None:
    two_slots.tell(submitted(1), input_ended)
    actions = two_slots.tell(succeeded(1, slot=0))
    assert actions == [succeed(0, 1), do.FinishWorker(0), do.FinishWorker(1)]
    assert two_slots.tell(finished(1)) == []
    assert two_slots.tell(finished(0)) == [do.EndRun(no_worker_left=False)]
    assert two_slots.scheduler.wake_at is None


def test_an_empty_input_ends_the_run(two_slots: Desk) -> None:
    assert two_slots.tell(input_ended, finished(0), finished(1))[-1] == do.EndRun(False)


def test_a_cleanup_that_hangs_is_killed() -> None:
    desk = Desk(slots=1, cleanup_timeout=2.0).with_ready_workers()
    desk.tell(input_ended, at=1.0)
    assert only(do.KillWorker, desk.wait(3.0))
    assert desk.scheduler.slots[0].is_cleaning_up
    assert desk.tell(died(slot=0)) == [do.EndRun(False)]


def test_a_worker_still_in_its_setup_may_finish_it_and_clean_up() -> None:
    desk = Desk(slots=2, cleanup_timeout=2.0)
    desk.tell(time_passed)
    desk.tell(ready(0), submitted(1), input_ended)
    desk.tell(succeeded(1, slot=0), finished(0))
    assert desk.tell(ready(1), at=1.0) == [do.FinishWorker(1)]
    assert desk.tell(finished(1)) == [do.EndRun(False)]


def test_but_the_run_does_not_wait_for_a_long_setup() -> None:
    desk = Desk(slots=2, cleanup_timeout=2.0)
    desk.tell(time_passed)
    desk.tell(ready(0), input_ended, finished(0))
    assert only(do.KillWorker, desk.wait(2.0))
    assert desk.tell(died(slot=1)) == [do.EndRun(False)]


def test_a_setup_that_fails_after_the_work_is_done_is_told() -> None:
    desk = Desk(slots=2)
    desk.tell(time_passed)
    desk.tell(ready(0), input_ended, finished(0))
    actions = desk.tell(setup_raised(1), died(slot=1))
    assert actions == [do.RetireSlot(1, "ValueError: no such model", True), do.EndRun(False)]


def test_a_stop_cancels_what_has_not_begun_and_lets_the_rest_finish() -> None:
    desk = Desk(slots=1, fixed_window=3).with_ready_workers()
    desk.tell(submitted(1, 2, 3, 4, 5))
    actions = desk.tell(stop(drain_until=3.0))
    assert settled(actions) == {4: "cancelled", 5: "cancelled"}
    assert only(do.RecallTasks, actions) == [do.RecallTasks(0, 3)]
    assert settled(desk.tell(given_back(3, 2, slot=0))) == {3: "cancelled", 2: "cancelled"}
    assert desk.tell(succeeded(1, slot=0), at=1.0) == [succeed(0, 1), do.FinishWorker(0)]


def test_idle_workers_clean_up_as_soon_as_the_run_is_stopped(two_slots: Desk) -> None:
    two_slots.tell(submitted(1))
    assert only(do.FinishWorker, two_slots.tell(stop(drain_until=3.0))) == [do.FinishWorker(1)]


def test_what_does_not_finish_in_time_is_killed_and_cancelled() -> None:
    desk = Desk(slots=1).with_ready_workers()
    desk.tell(submitted(1))
    desk.tell(stop(drain_until=3.0), at=1.0)
    assert only(do.KillWorker, desk.wait(3.0))
    assert settled(desk.tell(died(1, slot=0))) == {1: "cancelled"}
    assert desk.scheduler.ended


def test_a_second_stop_may_only_hurry() -> None:
    desk = Desk(slots=1).with_ready_workers()
    desk.tell(submitted(1))
    desk.tell(stop(drain_until=100.0))
    desk.tell(stop(drain_until=1.0), at=1.0)
    assert only(do.KillWorker, desk.wait(1.0))
    desk = Desk(slots=1).with_ready_workers()
    desk.tell(submitted(1))
    desk.tell(stop(drain_until=1.0), stop(drain_until=100.0))
    assert only(do.KillWorker, desk.wait(1.0))


def test_a_stop_kills_workers_that_are_in_their_setup() -> None:
    desk = Desk(slots=2, setup_concurrency=1)
    desk.tell(time_passed)
    assert only(do.KillWorker, desk.tell(stop(drain_until=3.0))) == [do.KillWorker(0, "the run was stopped")]
    assert desk.tell(died(slot=0)) == [do.EndRun(False)]


def test_nothing_is_retried_and_nobody_restarted_after_a_stop() -> None:
    desk = Desk(slots=2, retries=5).with_ready_workers()
    desk.tell(submitted(1, 2))
    desk.tell(stop(drain_until=3.0))
    assert settled(desk.tell(failed(1, slot=0))) == {1: "error"}
    actions = desk.tell(died(2, slot=1))
    assert settled(actions) == {2: "error (crash)"}
    assert not only(do.StartWorker, actions)


def test_what_is_submitted_after_a_stop_is_cancelled(two_slots: Desk) -> None:
    two_slots.tell(stop(drain_until=3.0))
    assert settled(two_slots.tell(submitted(7, 8))) == {7: "cancelled", 8: "cancelled"}


def test_what_is_submitted_after_the_end_is_cancelled_too() -> None:
    desk = Desk(slots=1, max_restarts=0).with_ready_workers()
    assert desk.tell(died(slot=0))[-1] == do.EndRun(no_worker_left=True)
    assert settled(desk.tell(submitted(1), input_ended)) == {1: "cancelled"}


def test_a_worker_that_leaves_on_its_own_loses_nothing(two_slots: Desk) -> None:
    two_slots.tell(submitted(1, 2))
    assert only(do.SendTasks, two_slots.tell(finished(0))) == [do.SendTasks(1, [1])]
