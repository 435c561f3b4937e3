"""Workers per GPU may grow and shrink during a run, and no task notices."""

from __future__ import annotations

from scheduler_desk import (
    Desk,
    died,
    failed,
    given_back,
    input_ended,
    only,
    ready,
    send,
    settled,
    submitted,
    succeeded,
    time_passed,
)

from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling.inputs import SlotAdded, SlotRemoved, WorkerFinished


def test_an_added_slot_is_started_and_takes_its_share() -> None:
    desk = Desk(slots=1, fixed_window=2).with_ready_workers()
    desk.tell(submitted(1, 2, 3))
    assert desk.tell(SlotAdded()) == [do.StartWorker(1)]
    assert desk.tell(ready(1)) == [send(1, 3)]


def test_an_added_slot_waits_for_its_turn() -> None:
    desk = Desk(slots=1, setup_concurrency=1)
    desk.tell(time_passed)
    assert not desk.tell(SlotAdded())
    assert desk.tell(ready(0)) == [do.StartWorker(1)]


def test_a_slot_that_comes_too_late_is_not_started(two_slots: Desk) -> None:
    two_slots.tell(input_ended)
    assert not two_slots.tell(SlotAdded())
    assert two_slots.tell(WorkerFinished(0), WorkerFinished(1))[-1] == do.EndRun(False)


def test_an_idle_slot_leaves_at_once(two_slots: Desk) -> None:
    assert two_slots.tell(SlotRemoved(1)) == [do.FinishWorker(1)]
    two_slots.tell(WorkerFinished(1))
    assert two_slots.phase(1) == "gone"
    two_slots.tell(submitted(1, 2, 3))
    assert two_slots.held(1) == []


def test_a_busy_slot_gives_back_what_it_has_not_begun_then_leaves(two_slots: Desk) -> None:
    two_slots.tell(submitted(1, 2, 3, 4))
    assert two_slots.tell(SlotRemoved(0)) == [do.RecallTasks(0, 2)]
    two_slots.tell(given_back(2, slot=0))
    assert not only(do.SendTasks, two_slots.tell(submitted(5, 6, 7, 8)))
    actions = two_slots.tell(succeeded(1, slot=0))
    assert do.FinishWorker(0) in actions
    assert not [action for action in only(do.SendTasks, actions) if action.slot == 0]


def test_a_slot_that_is_loading_leaves_when_it_is_ready() -> None:
    desk = Desk(slots=2)
    desk.tell(time_passed)
    assert not desk.tell(ready(0), SlotRemoved(1))
    assert desk.tell(ready(1)) == [do.FinishWorker(1)]


def test_leaving_is_no_failure() -> None:
    desk = Desk(slots=2).with_ready_workers()
    desk.tell(submitted(1, 2))
    desk.tell(SlotRemoved(0))
    actions = desk.tell(died(1, slot=0))
    assert settled(actions) == {1: "error (crash)"}  # the task pays as ever
    assert not only(do.RetireSlot, actions)
    assert not only(do.StartWorker, actions)
    assert desk.phase(0) == "gone"


def test_the_last_slot_stays_while_there_is_work() -> None:
    desk = Desk(slots=1).with_ready_workers()
    assert not desk.tell(SlotRemoved(0))
    assert desk.tell(submitted(1)) == [send(0, 1)]
    desk.tell(SlotRemoved(0))
    desk.tell(submitted(2))
    assert send(0, 2) in desk.tell(succeeded(1, slot=0))


def test_when_all_are_to_leave_one_stays() -> None:
    desk = Desk(slots=3, fixed_window=1).with_ready_workers()
    desk.tell(submitted(*range(9)))
    desk.tell(SlotRemoved(0), SlotRemoved(1), SlotRemoved(2))
    told: dict[int, str] = {}
    while busy := [slot for slot in range(3) if desk.held(slot)]:
        for slot in busy:
            told |= settled(desk.tell(succeeded(*desk.held(slot), slot=slot)))
    assert not told
    assert desk.scheduler.unsettled == 0
    assert sorted(desk.phase(slot) for slot in range(3)) == ["finishing", "finishing", "ready"]


def test_removing_twice_or_what_is_gone_changes_nothing(two_slots: Desk) -> None:
    two_slots.tell(SlotRemoved(1))
    assert not two_slots.tell(SlotRemoved(1))
    two_slots.tell(WorkerFinished(1))
    assert not two_slots.tell(SlotRemoved(1))


def test_an_added_slot_counts_as_its_device_for_poisoned_tasks() -> None:
    desk = Desk(slots=1, devices=(0,)).with_ready_workers()
    desk.tell(SlotAdded(device=0), ready(1))
    desk.tell(SlotAdded(device=1), ready(2))
    desk.tell(submitted(1))
    assert only(do.SendTasks, desk.tell(failed(1, slot=0, kind="poisoned"))) == [send(2, 1)]
