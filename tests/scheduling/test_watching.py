"""Quiet workers are looked at: nothing waits behind a slow task, no limit is missed, no sound worker is killed."""

from __future__ import annotations

from math import inf

import pytest
from scheduler_desk import (
    Desk,
    died,
    failed,
    given_back,
    input_ended,
    only,
    running,
    running_nothing,
    send,
    settled,
    submitted,
    succeed,
    succeeded,
)

from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told

# --- time limits -------------------------------------------------------------------------------------------


def test_a_timeout_is_told_within_a_fifth_of_a_second_and_its_worker_killed_after_the_grace() -> None:
    desk = Desk(slots=1, task_timeout=2.0, timeout_grace=1.0).with_ready_workers()
    desk.tell(submitted(1), at=10.0)
    desk.shows[0] = running(1, slot=0, since=10.0)
    assert [(at, type(action)) for at, action in desk.watch(until=14.0)] == [
        (pytest.approx(12.1), do.SettleFailure),
        (pytest.approx(13.0), do.KillWorker),
    ]


def test_with_a_retry_to_come_a_timeout_is_told_only_when_the_worker_is_dead() -> None:
    desk = Desk(slots=1, task_timeout=2.0, timeout_grace=1.0, retries=1).with_ready_workers()
    desk.tell(submitted(1))
    desk.shows[0] = running(1, slot=0, since=0.0)
    assert [type(action) for action in desk.wait(until=4.0)] == [do.KillWorker]
    actions = desk.tell(died(1, slot=0))
    assert [(a.kind, a.attempt) for a in only(do.RetryTask, actions)] == [("timeout", 1)]


def test_the_limit_counts_from_the_start_of_the_task_not_from_its_sending() -> None:
    desk = Desk(slots=1, task_timeout=1.0, fixed_window=2).with_ready_workers()
    desk.tell(submitted(1, 2))
    desk.tell(succeeded(1, slot=0), at=0.9)
    desk.shows[0] = running(2, slot=0, since=0.9)
    assert not desk.wait(until=1.95)
    assert settled(desk.wait(until=2.05)) == {2: "timeout"}


def test_a_hung_worker_is_killed_although_its_other_tasks_were_given_back() -> None:
    desk = Desk(slots=2, task_timeout=1.0, timeout_grace=1.0, fixed_window=3).with_ready_workers()
    desk.tell(submitted(1, 2, 3, 4, 5, 6))
    desk.tell(succeeded(4, 5, 6, slot=1))
    desk.tell(running(1, slot=0, since=0.0), at=1.1)
    desk.tell(given_back(3, 2, slot=0), succeeded(2, 3, slot=1))
    desk.shows[0] = running(1, slot=0, since=0.0)
    assert [(at, type(action)) for at, action in desk.watch(until=5.0)] == [(pytest.approx(2.0), do.KillWorker)]


def test_results_that_come_in_between_do_not_put_off_the_kill() -> None:
    desk = Desk(slots=1, task_timeout=1.0, timeout_grace=0.5, fixed_window=3).with_ready_workers()
    desk.tell(submitted(0, 1, 2))
    desk.shows[0] = running(1, slot=0, since=0.0)
    assert settled(desk.wait(until=1.15)) == {1: "timeout"}
    desk.tell(succeeded(0, slot=0, each_s=0.9), at=1.2)
    assert [(at, type(action)) for at, action in desk.watch(until=5.0)] == [(1.5, do.KillWorker)]


def test_those_behind_a_task_past_its_limit_move_at_once() -> None:
    desk = Desk(slots=1, task_timeout=1.0, timeout_grace=1.0, fixed_window=2).with_ready_workers()
    desk.tell(submitted(1, 2))
    actions = desk.tell(running(1, slot=0, since=0.0), at=1.1)
    assert only(do.RecallTasks, actions)


def test_a_worker_that_comes_back_after_the_word_is_used_again() -> None:
    desk = Desk(slots=1, task_timeout=1.0, timeout_grace=1.0).with_ready_workers()
    desk.tell(submitted(1, 2))
    desk.tell(running(1, slot=0, since=0.0), at=1.1)
    desk.tell(given_back(2, slot=0))
    assert desk.tell(failed(1, slot=0, kind="timeout"), at=1.5) == [send(0, 2)]
    desk.shows[0] = running(2, slot=0, since=1.5)
    assert not desk.wait(until=2.4)


def test_a_batch_past_its_limit_is_halved() -> None:
    desk = Desk(slots=1, task_timeout=1.0, timeout_grace=0.5, batch_size=4, fixed_window=4).with_ready_workers()
    desk.tell(submitted(1, 2, 3, 4))
    peek = running(1, 2, 3, 4, slot=0, since=0.0)
    assert not settled(desk.tell(peek, at=1.1))
    assert only(do.KillWorker, desk.tell(peek, at=1.5))
    assert not settled(desk.tell(died(1, 2, 3, 4, slot=0)))
    assert set(map(tuple, desk.scheduler.places().values())) == {("group",)}


def test_who_began_just_before_the_kill_of_its_neighbour_is_not_charged() -> None:
    desk = Desk(slots=1, task_timeout=1.0, timeout_grace=0.0, fixed_window=2).with_ready_workers()
    desk.tell(submitted(1, 2))
    desk.tell(running(1, slot=0, since=0.0), at=1.0)
    actions = desk.tell(succeeded(1, slot=0), died(2, slot=0))
    assert succeed(0, 1) in actions
    assert not settled(actions)
    assert desk.scheduler.places() == {2: ["pending"]}


# --- stragglers --------------------------------------------------------------------------------------------


def test_what_waits_behind_a_straggler_is_taken_back_after_20_ms() -> None:
    desk = Desk(slots=2, fixed_window=3).with_ready_workers()
    desk.tell(submitted(1, 2, 3, 4, 5, 6))
    desk.shows[0] = running(1, slot=0, since=0.0)
    assert desk.watch(until=1.0) == [(pytest.approx(0.02), do.RecallTasks(0, 3))]


@pytest.mark.parametrize("limit_s", [None, 0.05])
def test_what_was_answered_runs_no_more_although_its_worker_still_notes_it(limit_s: float | None) -> None:
    """A worker that is not given the processor after it has sent a result shows that task as running for a while."""
    desk = Desk(slots=2, fixed_window=3, task_timeout=limit_s, timeout_grace=0.05).with_ready_workers()
    desk.tell(submitted(1, 2, 3, 4, 5, 6))
    desk.tell(succeeded(1, slot=0, each_s=0.04), at=0.04)
    desk.shows[0] = running(1, slot=0, since=0.0)
    assert not only(do.KillWorker, desk.wait(until=0.3))
    assert only(do.SendTasks, desk.tell(given_back(3, 2, slot=0))) == [send(0, 3, 2)]  # it is still of use
    desk.tell(input_ended)
    actions = desk.tell(succeeded(3, 2, slot=0), succeeded(4, 5, 6, slot=1))
    assert set(map(str, only(do.FinishWorker, actions))) == {str(do.FinishWorker(0)), str(do.FinishWorker(1))}


def test_a_second_attempt_does_not_run_since_the_first_began() -> None:
    desk = Desk(slots=1, task_timeout=0.1, timeout_grace=1.0, retries=1).with_ready_workers()
    desk.tell(submitted(1))
    assert desk.tell(failed(1, slot=0), at=0.05) == [do.RetryTask(0, 1, 1, "error", "error of 1"), send(0, 1)]
    desk.shows[0] = running(1, slot=0, since=0.0)  # it was not given the processor since it said so
    assert not settled(desk.wait(until=0.3))
    desk.shows[0] = running(1, slot=0, since=0.3)
    assert not settled(desk.wait(until=0.45))
    assert settled(desk.wait(until=0.55)) == {1: "timeout"}


def test_a_task_that_hangs_behind_one_that_was_answered_is_found() -> None:
    """Where tasks overlap, one of them may still be noted, from before."""
    desk = Desk(slots=1, task_timeout=1.0, timeout_grace=0.5, fixed_window=3).with_ready_workers()
    desk.tell(submitted(1, 2, 3))
    desk.tell(failed(1, slot=0), at=0.2)
    desk.shows[0] = told.WorkerPeeked(0, {1: 0.0, 2: 0.1})
    assert [(at, type(action)) for at, action in desk.watch(until=5.0) if not isinstance(action, do.RecallTasks)] == [
        (pytest.approx(1.2), do.SettleFailure),
        (pytest.approx(1.6), do.KillWorker),
    ]


def test_a_second_attempt_whose_clock_was_read_too_early_is_not_taken_for_silence() -> None:
    desk = Desk(slots=1, retries=1).with_ready_workers()
    desk.tell(submitted(1))
    desk.tell(failed(1, slot=0), at=0.05)
    desk.shows[0] = running(1, slot=0, since=0.04)
    assert not only(do.KillWorker, desk.wait(until=60.0))


def test_a_straggler_keeps_nothing_that_half_a_recall_has_left_behind_it() -> None:
    desk = Desk(slots=2, fixed_window=9).with_ready_workers()
    desk.tell(submitted(*range(18)))
    assert only(do.RecallTasks, desk.tell(succeeded(*range(9, 18), slot=1, each_s=0.001))) == [do.RecallTasks(0, 4)]
    desk.tell(running(0, slot=0, since=0.0), at=0.03)  # it is a straggler, and the recall is still on its way
    actions = desk.tell(given_back(8, 7, 6, 5, slot=0))
    assert only(do.RecallTasks, actions) == [do.RecallTasks(0, 5)]  # and now the rest


def test_nothing_is_sent_behind_a_straggler_that_is_alone() -> None:
    desk = Desk(slots=1).with_ready_workers()
    desk.tell(submitted(1))
    desk.tell(running(1, slot=0, since=0.0), at=0.1)
    assert not desk.tell(submitted(2, 3), at=0.2)
    assert send(0, 2, 3) in desk.tell(succeeded(1, slot=0), at=9.0)


@pytest.mark.parametrize("kind", ["error", "timeout"])
def test_a_slot_whose_straggler_failed_gets_work_again(kind: str) -> None:
    desk = Desk(slots=1).with_ready_workers()
    desk.tell(submitted(1))
    desk.tell(running(1, slot=0, since=0.0), at=0.1)
    desk.tell(submitted(2))
    assert send(0, 2) in desk.tell(failed(1, slot=0, kind=kind), at=0.2)


def test_evenly_long_tasks_are_never_taken_for_stragglers() -> None:
    desk = Desk(slots=2).with_ready_workers()
    desk.tell(submitted(*range(8)))
    for round_ in range(3):
        for slot in (0, 1):
            desk.tell(succeeded(desk.held(slot)[0], slot=slot, each_s=60.0), at=60.0 * (round_ + 1))
    for slot in (0, 1):
        desk.shows[slot] = running(desk.held(slot)[0], slot=slot, since=180.0)
    assert not desk.wait(until=240.0)


def test_a_batch_may_take_as_long_as_its_tasks_together() -> None:
    desk = Desk(slots=2, batch_size=64, fixed_window=128).with_ready_workers()
    desk.tell(submitted(*range(512)))
    for slot in (0, 1):
        desk.tell(succeeded(*desk.held(slot)[:64], slot=slot, each_s=0.01), at=0.64)
    batch = tuple(desk.held(0)[:64])
    actions = desk.tell(running(*batch, slot=0, since=0.64), at=0.64 + 0.6)
    assert not only(do.RecallTasks, actions)


def test_the_only_worker_keeps_its_tasks_but_is_asked_for_its_results() -> None:
    desk = Desk(slots=1, fixed_window=3).with_ready_workers()
    desk.tell(submitted(1, 2, 3))
    assert desk.tell(running(2, slot=0, since=0.0), at=0.1) == [do.RecallTasks(0, 0)]
    assert not only(do.RecallTasks, desk.tell(succeeded(1, slot=0), given_back(slot=0)))


# --- workers that do nothing -------------------------------------------------------------------------------


def test_a_worker_that_holds_tasks_and_starts_none_is_replaced() -> None:
    desk = Desk(slots=2).with_ready_workers()
    desk.tell(submitted(1))
    desk.shows[0] = running_nothing(0)
    assert [(at, type(action)) for at, action in desk.watch(until=12.0)] == [
        (pytest.approx(0.02), do.RecallTasks),
        (pytest.approx(10.02), do.KillWorker),
    ]
    assert send(1, 1) in desk.tell(died(slot=0))


def test_a_worker_whose_answer_is_on_its_way_is_not_taken_for_dead() -> None:
    desk = Desk(slots=1, task_timeout=100.0).with_ready_workers()
    desk.tell(submitted(1))
    desk.tell(running(1, slot=0, since=0.0), at=50.0)
    assert not only(do.KillWorker, desk.tell(running_nothing(0), at=99.9))  # it has just finished
    assert desk.tell(succeeded(1, slot=0), at=100.0) == [succeed(0, 1)]


def test_silence_means_nothing_while_nobody_reads() -> None:
    desk = Desk(slots=1).with_ready_workers()
    desk.tell(submitted(1))
    for second in range(1, 60):
        peek = running(1, slot=0, since=inf, unread=True)
        assert not only(do.KillWorker, desk.tell(peek, at=float(second)))


def test_a_worker_stuck_in_the_middle_of_writing_is_replaced_and_its_task_charged() -> None:
    desk = Desk(slots=1).with_ready_workers()
    desk.tell(submitted(1))
    desk.tell(running(1, slot=0, since=inf), at=1.0)
    assert only(do.KillWorker, desk.tell(running(1, slot=0, since=inf), at=11.0))
    assert settled(desk.tell(died(1, slot=0))) == {1: "error (crash)"}


def test_a_peek_at_an_idle_worker_changes_nothing(two_slots: Desk) -> None:
    assert not two_slots.tell(running_nothing(0), running(7, slot=1, since=0.0), input_ended)[:-2]
