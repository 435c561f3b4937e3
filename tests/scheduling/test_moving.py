"""Idle slots get work that others have not begun; and nothing moves to and fro."""

from __future__ import annotations

import pytest
from scheduler_desk import (
    Desk,
    died,
    given_back,
    input_ended,
    only,
    ready,
    send,
    submitted,
    succeeded,
    time_passed,
)

from gpu_dispatch.scheduling import actions as do


def test_an_idle_slot_takes_from_the_longest_queue() -> None:
    desk = _uneven(held=(3, 5, 1))
    actions = desk.tell(succeeded(*desk.held(2), slot=2))
    assert only(do.RecallTasks, actions) == [do.RecallTasks(1, 2)]
    moved = desk.held(1)[-2:]
    assert only(do.SendTasks, desk.tell(given_back(*moved, slot=1))) == [send(2, *moved)]


def test_a_worker_that_becomes_ready_late_gets_what_the_first_one_hoards() -> None:
    desk = Desk(slots=2, fixed_window=2)
    desk.tell(time_passed)
    desk.tell(ready(0), submitted(1, 2))
    assert desk.held(0) == [1, 2]
    assert only(do.RecallTasks, desk.tell(ready(1))) == [do.RecallTasks(0, 1)]


def test_one_idle_slot_asks_one_other_at_a_time() -> None:
    desk = _uneven(held=(4, 4, 1))
    assert len(only(do.RecallTasks, desk.tell(succeeded(*desk.held(2), slot=2)))) == 1
    assert not only(do.RecallTasks, desk.tell(succeeded(desk.held(0)[0], slot=0)))
    assert not only(do.RecallTasks, desk.tell(time_passed))


def test_two_idle_slots_may_ask_two() -> None:
    desk = _uneven(held=(4, 4, 1, 1))
    first = desk.tell(succeeded(*desk.held(2), slot=2))
    second = desk.tell(succeeded(*desk.held(3), slot=3))
    assert {a.slot for a in only(do.RecallTasks, first + second)} == {0, 1}


def test_a_worker_that_cannot_answer_does_not_keep_idle_ones_from_asking_others() -> None:
    desk = _uneven(held=(5, 4, 1))
    desk.wait(until=1.0)
    assert only(do.RecallTasks, desk.tell(succeeded(*desk.held(2), slot=2))) == [do.RecallTasks(0, 2)]
    assert desk.watch(until=1.03) == [(pytest.approx(1.02), do.RecallTasks(1, 2))]


def test_who_gave_back_less_than_was_asked_is_not_asked_again_before_it_got_new_tasks() -> None:
    desk = _uneven(held=(2, 1))
    assert only(do.RecallTasks, desk.tell(succeeded(*desk.held(1), slot=1)))
    assert not only(do.RecallTasks, desk.tell(given_back(slot=0)))  # it had just begun the other one
    assert not only(do.RecallTasks, desk.tell(time_passed))
    desk.tell(submitted(91, 92, 93, 94, 95))
    assert desk.held(0)[2:] == [95]
    assert only(do.RecallTasks, desk.tell(succeeded(91, 92, 93, 94, slot=1))) == [do.RecallTasks(0, 1)]


def test_who_gave_back_all_that_was_asked_may_be_asked_for_more() -> None:
    desk = _uneven(held=(5, 1))
    desk.tell(succeeded(*desk.held(1), slot=1))
    desk.tell(given_back(*desk.held(0)[-2:], slot=0))
    assert (len(desk.held(0)), len(desk.held(1))) == (3, 2)
    assert only(do.RecallTasks, desk.tell(succeeded(*desk.held(1), slot=1))) == [do.RecallTasks(0, 1)]


def test_work_that_is_done_sooner_than_it_could_move_stays() -> None:
    desk = _uneven(held=(3, 1), each_s=0.001)
    assert not only(do.RecallTasks, desk.tell(succeeded(*desk.held(1), slot=1, each_s=0.001)))


def test_a_recall_that_its_worker_did_not_survive_is_not_waited_for() -> None:
    desk = _uneven(held=(4, 4, 1))
    desk.tell(succeeded(*desk.held(2), slot=2))
    desk.tell(died(desk.held(0)[0], slot=0))
    asked = only(do.RecallTasks, desk.tell(succeeded(*desk.held(2), slot=2)))
    assert [a.slot for a in asked] == [1]


def test_tasks_given_back_go_before_those_that_never_had_a_slot() -> None:
    desk = Desk(slots=2, fixed_window=2).with_ready_workers()
    desk.tell(submitted(*range(10)))
    desk.tell(died(slot=0))
    assert only(do.SendTasks, desk.tell(succeeded(2, 3, slot=1))) == [send(1, 0, 1)]


def _uneven(held: tuple[int, ...], *, window: int = 0, each_s: float = 0.1, ended: bool = True) -> Desk:
    """Slots that hold so many tasks each and have been measured, and nothing pending."""
    window = window or 2 * max(held)
    desk = Desk(slots=len(held), fixed_window=window).with_ready_workers()
    desk.tell(submitted(*range(window * len(held))))
    for slot, count in enumerate(held):
        done = desk.held(slot)[: window - count]
        desk.tell(succeeded(*done, slot=slot, each_s=each_s))
    if ended:
        desk.tell(input_ended)
    assert tuple(len(desk.held(slot)) for slot in range(len(held))) == held
    return desk
