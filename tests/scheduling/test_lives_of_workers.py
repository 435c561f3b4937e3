"""Workers are started in their turn, replaced when they die, and given up when that is no use."""

from __future__ import annotations

import pytest
from scheduler_desk import (
    Desk,
    died,
    failed,
    input_ended,
    only,
    ready,
    running,
    send,
    settled,
    setup_raised,
    submitted,
    succeeded,
    time_passed,
)

from gpu_dispatch.options import RetryPolicy
from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told


def test_all_workers_start_at_once_unless_told_otherwise() -> None:
    assert Desk(slots=3).tell(time_passed) == [do.StartWorker(0), do.StartWorker(1), do.StartWorker(2)]


def test_models_are_loaded_one_after_the_other_when_asked_to() -> None:
    desk = Desk(slots=3, setup_concurrency=1)
    assert desk.tell(time_passed) == [do.StartWorker(0)]
    assert desk.tell(ready(0)) == [do.StartWorker(1)]
    assert desk.tell(died(slot=1)) == [do.StartWorker(2)]
    assert not desk.wait(0.0)  # slot 1 may start again at once, but it is not its turn
    assert desk.tell(ready(2)) == [do.StartWorker(1)]


def test_a_slot_whose_back_off_outlasts_its_turn_is_not_forgotten() -> None:
    desk = Desk(slots=2, setup_concurrency=1)
    desk.tell(time_passed)
    desk.tell(ready(0))
    desk.tell(died(slot=1), at=1.0)
    desk.tell(died(slot=1), at=2.0)  # the second in a row: it waits 50 ms
    assert desk.tell(died(slot=0), at=2.0) == [do.StartWorker(0)]  # and takes the only turn
    desk.tell(time_passed, at=2.02)
    assert not desk.tell(ready(0), at=2.03)
    assert desk.wait(2.05) == [do.StartWorker(1)]


def test_a_setup_that_raises_at_first_is_not_tried_again() -> None:
    desk = Desk(slots=2)
    desk.tell(time_passed)
    desk.tell(setup_raised(0))
    assert desk.tell(died(slot=0, cause="exit code 1")) == [do.RetireSlot(0, "ValueError: no such model", True)]


def test_a_slot_is_not_used_again_before_the_process_whose_setup_raised_is_gone() -> None:
    desk = Desk(slots=1, task_timeout=1.0, timeout_grace=0.0).with_ready_workers()
    desk.tell(submitted(1), input_ended, submitted(2))
    desk.tell(running(1, slot=0, since=0.0), at=1.0)
    assert only(do.StartWorker, desk.tell(died(1, slot=0)))
    assert not desk.tell(setup_raised(0), at=2.0)  # GPU memory of the killed one not free yet, say
    assert not desk.wait(2.5)
    assert desk.tell(died(slot=0), at=2.5) == [do.StartWorker(0)]


def test_a_process_that_does_not_end_after_its_failed_setup_is_killed() -> None:
    desk = Desk(slots=1)
    desk.tell(time_passed)
    desk.tell(setup_raised(0), at=1.0)
    assert only(do.KillWorker, desk.wait(2.0))
    actions = desk.tell(died(slot=0), at=2.1)
    assert only(do.RetireSlot, actions) == [do.RetireSlot(0, "ValueError: no such model", True)]


def test_a_setup_that_hangs_is_killed_and_its_slot_given_up() -> None:
    desk = Desk(slots=1, setup_timeout=5.0)
    desk.tell(time_passed, at=1.0)
    assert not desk.wait(5.9)
    assert only(do.KillWorker, desk.wait(6.0))
    (retired,) = only(do.RetireSlot, desk.tell(died(slot=0)))
    assert retired.in_setup
    assert "did not finish within 5 s" in retired.text


def test_a_worker_that_dies_in_its_setup_gets_three_tries() -> None:
    desk = Desk(slots=1)
    starts = desk.tell(time_passed)
    while desk.phase(0) != "retired":
        starts += desk.wait(desk.now + 10.0) if desk.phase(0) == "waiting" else desk.tell(died(slot=0))
    assert only(do.StartWorker, starts) == [do.StartWorker(0)] * 3


def test_a_slot_is_given_up_after_max_restarts_without_a_finished_task_between() -> None:
    desk = Desk(slots=1, max_restarts=4).with_ready_workers()
    deaths = 0
    while desk.phase(0) != "retired":
        deaths += 1
        desk.tell(died(slot=0))
        desk.wait(desk.now + 10.0)
        desk.with_ready_workers()
    assert deaths == 5


def test_a_finished_task_clears_the_slot_of_earlier_deaths() -> None:
    desk = Desk(slots=1, max_restarts=1).with_ready_workers()
    for task in range(10):
        desk.tell(submitted(task), succeeded(task, slot=0))
        assert desk.tell(died(slot=0)) == [do.StartWorker(0)]
        desk.with_ready_workers()


def test_back_offs_grow_and_stay_finite() -> None:
    desk = Desk(slots=1, max_restarts=10_000).with_ready_workers()
    waits = []
    for _ in range(2_000):
        died_at = desk.now
        at_once = desk.tell(died(slot=0))
        waits.append(0.0 if at_once else desk.watch(died_at + 6.0)[0][0] - died_at)
        desk.with_ready_workers()
    assert waits[:4] == pytest.approx([0.0, 0.05, 0.1, 0.2])
    assert max(waits) == pytest.approx(5.0)


def test_a_hung_task_is_not_held_against_the_slot() -> None:
    desk = Desk(slots=1, max_restarts=0, task_timeout=1.0, timeout_grace=0.0).with_ready_workers()
    for task in range(5):
        began = desk.now
        desk.tell(submitted(task))
        desk.tell(running(task, slot=0, since=began), at=began + 1.0)
        actions = desk.tell(died(task, slot=0))
        assert settled(actions) == {task: "timeout"}
        assert only(do.StartWorker, actions)
        desk.with_ready_workers()


def test_no_worker_is_loaded_for_work_that_others_are_about_to_finish() -> None:
    desk = Desk(slots=2).with_ready_workers()
    desk.tell(submitted(1, 2), input_ended)
    desk.tell(died(1, slot=0))
    assert not desk.wait(0.0)
    assert desk.tell(succeeded(2, slot=1)) == [do.SettleSuccess(1, [2]), do.FinishWorker(1)]


def test_a_worker_is_loaded_after_all_when_a_task_comes_back() -> None:
    desk = Desk(slots=2, retries=1).with_ready_workers()
    desk.tell(submitted(1, 2), input_ended)
    assert not only(do.StartWorker, desk.tell(succeeded(1, slot=0), died(slot=0)))
    assert do.StartWorker(0) in desk.tell(died(2, slot=1))


def test_a_worker_is_loaded_after_all_when_a_broken_context_leaves_a_task_behind() -> None:
    desk = Desk(slots=2).with_ready_workers()
    desk.tell(submitted(1, 2), input_ended)
    assert not only(do.StartWorker, desk.tell(succeeded(1, slot=0), died(slot=0)))
    assert do.StartWorker(0) in desk.tell(failed(2, slot=1, kind="poisoned"))


def test_no_worker_is_loaded_for_a_retry_that_an_idle_one_can_take() -> None:
    desk = Desk(slots=3, retries=RetryPolicy(retries=1, backoff_s=0.5)).with_ready_workers()
    desk.tell(submitted(1, 2), input_ended)
    desk.tell(died(slot=2), failed(1, slot=0))
    assert desk.phase(2) == "waiting"
    assert desk.wait(0.5) == [send(0, 1)]


def test_a_process_that_cannot_be_killed_costs_its_gpu_and_its_tasks_but_not_the_run() -> None:
    desk = Desk(slots=2, fixed_window=2, task_timeout=1.0, timeout_grace=0.0, retries=1).with_ready_workers()
    desk.tell(submitted(1, 2, 3, 4))
    assert desk.held(0) == [1, 2]
    desk.tell(running(1, slot=0, since=0.0), succeeded(3, 4, slot=1), at=1.0)
    assert desk.phase(0) == "dying"
    actions = desk.wait(6.0)
    assert settled(actions) == {1: "timeout", 2: "error (lost)"}
    assert only(do.RetireSlot, actions)
    assert desk.tell(submitted(5)) == [send(1, 5)]


def test_when_no_worker_is_left_every_task_is_told_so() -> None:
    desk = Desk(slots=1, max_restarts=0).with_ready_workers()
    desk.tell(submitted(1, 2, 3, 4, 5))
    actions = desk.tell(died(1, slot=0))
    assert settled(actions) == {1: "error (crash)"} | dict.fromkeys((2, 3, 4, 5), "error (lost)")
    assert actions[-1] == do.EndRun(no_worker_left=True)


def test_words_from_a_worker_that_is_given_up_change_nothing() -> None:
    desk = Desk(slots=2, max_restarts=0).with_ready_workers()
    desk.tell(died(slot=0))
    late = [ready(0), setup_raised(0), died(slot=0), succeeded(9, slot=0), failed(9, slot=0), told.WorkerFinished(0)]
    assert desk.tell(*late) == []


# --- several slots on a device -----------------------------------------------------------------------------


def test_a_device_that_lost_one_slot_to_crashes_does_not_get_to_fail_as_often_with_the_others() -> None:
    desk = Desk(slots=3, max_restarts=3, devices=(0, 0, 1)).with_ready_workers()
    while desk.phase(0) != "retired":
        desk.tell(died(slot=0))
        desk.wait(desk.now + 10)
        desk.with_ready_workers()
    assert desk.phase(1) == "ready"  # as long as it does not fail
    assert only(do.RetireSlot, desk.tell(died(slot=1)))
    assert not only(do.RetireSlot, desk.tell(died(slot=2)))


def test_a_hung_task_does_not_cost_a_suspect_device_its_slot() -> None:
    desk = Desk(slots=2, max_restarts=0, devices=(0, 0), task_timeout=1.0, timeout_grace=0.0).with_ready_workers()
    desk.tell(died(slot=0), submitted(1))
    desk.tell(running(1, slot=1, since=0.0), at=1.0)
    assert not only(do.RetireSlot, desk.tell(died(1, slot=1)))


def test_a_setup_that_fails_does_not_make_its_device_suspect() -> None:
    desk = Desk(slots=2, devices=(0, 0))
    desk.tell(time_passed)
    desk.tell(setup_raised(0), died(slot=0), ready(1))
    assert not only(do.RetireSlot, desk.tell(died(slot=1)))


# --- broken contexts ---------------------------------------------------------------------------------------


def test_a_task_that_met_a_broken_context_is_tried_once_on_another_device() -> None:
    desk = Desk(slots=3, devices=(0, 0, 1)).with_ready_workers()
    desk.tell(submitted(1))
    actions = desk.tell(failed(1, slot=0, kind="poisoned"))
    assert only(do.KillWorker, actions)
    assert only(do.SendTasks, actions) == [send(2, 1)]  # slot 1 is idle too, but on the same device
    assert settled(desk.tell(failed(1, slot=2, kind="poisoned"))) == {1: "error (poisoned)"}


def test_it_waits_for_the_other_device_while_that_is_busy() -> None:
    desk = Desk(slots=2, devices=(0, 1), fixed_window=1).with_ready_workers()
    desk.tell(submitted(1, 2))
    assert not only(do.SendTasks, desk.tell(failed(1, slot=0, kind="poisoned")))
    assert desk.scheduler.queue_depth == 1
    assert only(do.SendTasks, desk.tell(succeeded(2, slot=1))) == [send(1, 1)]


def test_it_goes_to_the_same_device_when_no_other_is_left() -> None:
    desk = Desk(slots=3, devices=(0, 0, 1), fixed_window=1, max_restarts=0).with_ready_workers()
    desk.tell(submitted(1, 2, 3))
    desk.tell(failed(1, slot=0, kind="poisoned"), succeeded(2, slot=1))
    assert desk.scheduler.places()[1] == ["not on device 0"]  # slot 1 is idle, but on the same device
    assert send(1, 1) in desk.tell(died(3, slot=2))  # which retires the other device


def test_others_in_a_worker_with_a_broken_context_go_back_without_charge() -> None:
    desk = Desk(slots=1, fixed_window=3).with_ready_workers()
    desk.tell(submitted(1, 2, 3))
    desk.tell(failed(1, slot=0, kind="poisoned"))
    assert not settled(desk.tell(died(2, slot=0)))
    assert sorted(desk.scheduler.places()) == [1, 2, 3]


def test_a_poisoned_task_is_not_moved_back_to_where_its_context_broke() -> None:
    desk = Desk(slots=2, devices=(0, 1), fixed_window=4).with_ready_workers()
    desk.tell(submitted(1, 2, 3))  # 1, 2 to slot 0; 3 to slot 1
    desk.tell(failed(1, slot=0, kind="poisoned"), failed(2, slot=0, kind="poisoned"))
    assert desk.held(1) == [3, 1, 2]
    desk.tell(died(slot=0))
    assert not only(do.RecallTasks, desk.tell(ready(0)))  # idle, but of no use to them
