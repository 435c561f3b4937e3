"""The small parts: tasks that wait, and instants that are waited for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpu_dispatch.scheduling.alarms import Alarms
from gpu_dispatch.scheduling.pending import PendingTasks
from gpu_dispatch.scheduling.slot import NEVER, Slot
from gpu_dispatch.scheduling.waiting import WaitingTasks


def test_tasks_are_taken_first_come_first_served() -> None:
    pending = PendingTasks()
    pending.add(range(3), None)
    pending.add(range(3, 6), None)
    assert pending.take(4) == [0, 1, 2, 3]
    assert pending.take(10) == [4, 5]
    assert pending.take(1) == []


def test_with_costs_the_longest_go_first() -> None:
    pending = PendingTasks()
    pending.add([1, 2, 3], [1.0, 30.0, 5.0])
    pending.add([4], [10.0])
    assert pending.take(3) == [2, 4, 3]


def test_equal_costs_keep_their_order() -> None:
    pending = PendingTasks()
    pending.add(range(5), [1.0] * 5)
    assert pending.take(5) == [0, 1, 2, 3, 4]


def test_those_that_were_put_back_go_before_all_others() -> None:
    pending = PendingTasks()
    pending.add([1], None)
    pending.add([2], [99.0])
    pending.put_back([7, 8])
    assert pending.take(9) == [7, 8, 2, 1]


@given(st.lists(st.tuples(st.sampled_from(["add", "cost", "back", "take"]), st.integers(0, 5))))
def test_the_count_of_pending_tasks_is_right(steps: list[tuple[str, int]]) -> None:
    pending, task, inside = PendingTasks(), 0, 0
    for step, count in steps:
        tasks = list(range(task, task + count))
        if step == "take":
            inside -= len(pending.take(count))
        else:
            task += count
            inside += count
            if step == "back":
                pending.put_back(iter(tasks))
            else:
                pending.add(tasks, [0.5] * count if step == "cost" else None)
        assert pending.count == inside == len(list(pending))


def test_every_kind_of_waiting_is_counted_and_taken() -> None:
    waiting = WaitingTasks()
    waiting.pending.add([1], None)
    waiting.add_group((2, 3))
    waiting.elsewhere.append((4, 0))
    waiting.delay(5, 1.0)
    assert waiting.count == len(list(waiting.places())) == 5
    assert sorted(waiting.take_all()) == [1, 2, 3, 4, 5]
    assert waiting.count == 0


INSTANTS = st.one_of(st.just(NEVER), st.integers(0, 20).map(float))


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["check", "deadline", "wait"]), INSTANTS), max_size=60))
def test_an_alarm_goes_off_at_its_instant_never_later_and_never_without_reason(
    steps: list[tuple[int, str, float]],
) -> None:
    slots = [Slot(number, number) for number in range(3)]
    alarms = Alarms(slots)
    now = 0.0
    for number, step, at in steps:
        slot = slots[number]
        if step == "check":
            alarms.set_check(slot, max(at, now))
        elif step == "deadline":
            alarms.set_deadline(slot, max(at, now))
        else:
            while alarms.next_at <= now + 3.0:
                now = max(now, alarms.next_at)
                for due in alarms.due(now):
                    assert min(due.check_at, due.deadline_at) == now
                    due.check_at = NEVER if due.check_at <= now else due.check_at
                    due.deadline_at = NEVER if due.deadline_at <= now else due.deadline_at
            now += 3.0
        earliest = min(min(slot.check_at, slot.deadline_at) for slot in slots)
        assert earliest >= now or earliest == NEVER
        assert alarms.next_at <= earliest


def test_alarms_that_move_to_and_fro_do_not_pile_up() -> None:
    slots = [Slot(0, 0)]
    alarms = Alarms(slots)
    for step in range(10_000):
        now = step * 0.01
        for slot in alarms.due(now):
            slot.check_at = NEVER
        alarms.set_check(slots[0], now + (0.02 if step % 2 else 10.0))
    assert len(alarms._heap) < 1_100  # what was set for the next ten seconds


def test_waking_on_nobody_s_account_happens_once() -> None:
    alarms = Alarms([])
    alarms.wake(5.0)
    alarms.wake(3.0)
    assert alarms.next_at == 3.0
    assert list(alarms.due(3.0)) == []
    assert alarms.next_at == NEVER
