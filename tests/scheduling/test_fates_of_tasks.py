"""Every task gets its word once, whatever becomes of its worker; and no more attempts than were allowed."""

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
    submitted,
    succeed,
    succeeded,
)

from gpu_dispatch.options import RetryPolicy
from gpu_dispatch.scheduling import actions as do


def test_queued_tasks_move_when_their_worker_is_killed(two_slots: Desk) -> None:
    two_slots.tell(submitted(1, 2, 3), at=0.0)  # 1 and 2 go to slot 0, 3 to slot 1

    actions = two_slots.tell(died(1, slot=0, cause="SIGKILL"), at=0.2)

    crashed = do.SettleFailure(0, 1, "error", "crash", "SIGKILL", attempt=1)
    assert actions == [crashed, send(1, 2), do.StartWorker(0)]


def test_a_task_that_did_not_run_when_its_worker_died_is_not_charged(two_slots: Desk) -> None:
    two_slots.tell(submitted(1, 2))
    actions = two_slots.tell(died(slot=0))
    assert not settled(actions)
    assert only(do.SendTasks, actions) == [send(1, 1)]


def test_tasks_that_the_worker_never_had_cannot_be_charged(two_slots: Desk) -> None:
    two_slots.tell(submitted(1, 2))
    assert not settled(two_slots.tell(died(2, 77, slot=0)))


def test_a_result_that_arrives_after_the_kill_was_asked_for_counts() -> None:
    desk = Desk(slots=1, task_timeout=1.0, timeout_grace=0.5, retries=1).with_ready_workers()
    desk.tell(submitted(1))
    assert only(do.KillWorker, desk.tell(running(1, slot=0, since=0.0), at=1.5))
    assert desk.tell(succeeded(1, slot=0)) == [succeed(0, 1)]
    assert not settled(desk.tell(died(1, slot=0)))


def test_an_answer_with_a_late_task_in_front_settles_those_behind_it() -> None:
    desk = _with_task_1_told_as_timed_out()
    assert desk.tell(succeeded(1, 2, 3, slot=0)) == [succeed(0, 2, 3)]
    assert desk.scheduler.unsettled == 0
    assert desk.held(0) == []


def test_an_answer_with_a_late_task_at_its_end_settles_those_before_it() -> None:
    desk = _with_task_1_told_as_timed_out()
    assert desk.tell(succeeded(2, 1, slot=0)) == [succeed(0, 2)]
    assert desk.held(0) == [3]


def test_a_late_failure_is_forgiven_and_the_worker_used_again() -> None:
    desk = _with_task_1_told_as_timed_out()
    assert not settled(desk.tell(failed(1, slot=0, kind="timeout"), succeeded(2, 3, slot=0)))
    assert desk.tell(submitted(4)) == [send(0, 4)]


def _with_task_1_told_as_timed_out() -> Desk:
    """One worker; task 1 is past its limit and settled, but still runs; 2 and 3 are behind it."""
    desk = Desk(slots=1, task_timeout=1.0, timeout_grace=5.0, fixed_window=3).with_ready_workers()
    desk.tell(submitted(1, 2, 3))
    desk.tell(running(1, slot=0, since=0.0), at=0.5)
    assert settled(desk.tell(running(1, slot=0, since=0.0), at=1.1)) == {1: "timeout"}
    return desk


@pytest.mark.parametrize("kind", ["error", "timeout"])
def test_a_failure_is_final_without_retries(two_slots: Desk, kind: str) -> None:
    two_slots.tell(submitted(1))
    actions = two_slots.tell(failed(1, slot=0, kind=kind))
    assert [(a.word, a.attempt) for a in only(do.SettleFailure, actions)] == [(kind, 1)]


def test_no_task_is_attempted_more_often_than_retries_allow() -> None:
    desk = Desk(slots=1, retries=2).with_ready_workers()
    actions = desk.tell(submitted(1))
    attempts = 0
    while only(do.SendTasks, actions):
        attempts += 1
        actions = desk.tell(failed(1, slot=0))
    assert attempts == 3
    assert [a.attempt for a in only(do.SettleFailure, actions)] == [3]


def test_a_retry_waits_for_its_back_off() -> None:
    desk = Desk(slots=1, retries=RetryPolicy(retries=2, backoff_s=0.5)).with_ready_workers()
    desk.tell(submitted(1))
    assert [a.attempt for a in only(do.RetryTask, desk.tell(failed(1, slot=0), at=1.0))] == [1]
    assert not desk.wait(1.4)
    assert desk.wait(1.5) == [send(0, 1)]
    desk.tell(failed(1, slot=0), at=2.0)
    assert not desk.wait(2.9)
    assert desk.wait(3.0) == [send(0, 1)]


def test_what_does_not_pickle_is_not_tried_again() -> None:
    desk = Desk(slots=1, retries=5).with_ready_workers()
    desk.tell(submitted(1))
    assert settled(desk.tell(failed(1, slot=0, kind="transport"))) == {1: "error (transport)"}


def test_a_task_that_killed_two_workers_is_not_tried_again_whatever_retries_say() -> None:
    desk = Desk(slots=1, retries=10, max_crashes=2).with_ready_workers()
    desk.tell(submitted(1))
    assert not settled(desk.tell(died(1, slot=0)))
    desk.with_ready_workers()
    assert settled(desk.tell(died(1, slot=0))) == {1: "error (crash)"}


def test_a_soft_timeout_is_not_held_against_a_task_as_a_crash() -> None:
    desk = Desk(slots=1, retries=3, max_crashes=1).with_ready_workers()
    desk.tell(submitted(1))
    actions = desk.tell(failed(1, slot=0, kind="timeout"))  # the worker lives
    assert not settled(actions)
    assert only(do.SendTasks, actions) == [send(0, 1)]


# --- batches -----------------------------------------------------------------------------------------------


def test_a_batch_that_kills_its_worker_is_halved_until_the_guilty_task_is_alone() -> None:
    guilty, calls = 37, 0
    desk = Desk(slots=1, batch_size=64, max_restarts=100).with_ready_workers()
    desk.tell(submitted(*range(64)), input_ended)
    told: dict[int, str] = {}
    while batch := desk.held(0):
        calls += 1
        if guilty in batch:
            told |= settled(desk.tell(died(*batch, slot=0)))
            desk.wait(desk.now + 10.0)  # its back-off
            desk.with_ready_workers()
        else:
            desk.tell(succeeded(*batch, slot=0))
    assert told == {guilty: "error (crash)"}
    assert desk.scheduler.unsettled == 0
    assert calls <= 2 * 6 + 2


def test_suspects_stay_together_when_they_are_taken_back() -> None:
    desk = _with_suspects_in_slot_1()
    assert desk.held(1) == [0, 1]
    desk.tell(died(slot=1))  # before it began them
    assert desk.scheduler.places() == {2: ["group"], 3: ["group"], 0: ["group"], 1: ["group"]}


def test_suspects_stay_together_when_their_worker_gives_them_back() -> None:
    desk = _with_suspects_in_slot_1()
    actions = desk.tell(given_back(1, 0, slot=1))
    assert only(do.SendTasks, actions) == [send(1, 2, 3, together=True)]
    assert desk.scheduler.places() == {0: ["group"], 1: ["group"], 2: ["slot 1"], 3: ["slot 1"]}


def _with_suspects_in_slot_1() -> Desk:
    """A batch of four killed slot 0; one half is in slot 1, the other waits."""
    desk = Desk(slots=2, batch_size=4, fixed_window=4).with_ready_workers()
    desk.tell(submitted(0, 1, 2, 3, 4, 5, 6, 7))
    desk.tell(succeeded(4, 5, 6, 7, slot=1))
    assert only(do.SendTasks, desk.tell(died(0, 1, 2, 3, slot=0))) == [send(1, 0, 1, together=True)]
    return desk


@pytest.mark.parametrize("left", [1, 2])
def test_suspects_do_not_wait_for_the_end_of_a_long_run(left: int) -> None:
    """The slots that are left never run dry by themselves: they are topped up as long as anything is pending."""
    desk = Desk(slots=1 + left, batch_size=2, fixed_window=4, max_restarts=0).with_ready_workers()
    desk.tell(submitted(*range(1_000)))
    desk.tell(died(0, 1, slot=0))  # retired
    for slot in range(1, 1 + left):
        assert not only(do.SendTasks, desk.tell(succeeded(*desk.held(slot)[:3], slot=slot)))
    assert only(do.SendTasks, desk.tell(succeeded(*desk.held(1), slot=1))) == [send(1, 0, together=True)]
    assert send(1, 1, together=True) in desk.tell(succeeded(0, slot=1))
    for slot in range(1, 1 + left):
        desk.tell(succeeded(*desk.held(slot), slot=slot))
        assert len(desk.held(slot)) == 4  # and all is as before


def test_a_task_that_killed_a_worker_alone_is_retried_alone() -> None:
    desk = Desk(slots=2, batch_size=4, retries=1).with_ready_workers()
    desk.tell(submitted(7))
    actions = desk.tell(died(7, slot=0))
    assert only(do.SendTasks, actions) == [send(1, 7, together=True)]
