"""What must be true of a scheduler between any two inputs, whatever has happened."""

from __future__ import annotations

from collections import Counter

from gpu_dispatch.scheduling import Scheduler
from gpu_dispatch.scheduling.slot import NEVER, Phase, Room
from gpu_dispatch.scheduling.window import LEAST, MOST

WAITS_FOR_A_DEADLINE = (Phase.EXITING, Phase.FINISHING, Phase.DYING)


def check(scheduler: Scheduler) -> None:
    tasks_are_in_one_place_each(scheduler)
    copies_are_beside_their_originals(scheduler)
    counts_are_right(scheduler)
    no_slot_idles_while_tasks_wait(scheduler)
    queues_are_bounded(scheduler)
    nothing_is_forgotten(scheduler)


def tasks_are_in_one_place_each(scheduler: Scheduler) -> None:
    places = scheduler.places()
    strays = {task: found for task, found in places.items() if len(found) != 1}
    assert not strays
    assert len(places) == scheduler.unsettled
    assert scheduler.in_flight == sum(found[0].startswith("slot") for found in places.values())
    assert scheduler.queue_depth + scheduler.in_flight == scheduler.unsettled


def copies_are_beside_their_originals(scheduler: Scheduler) -> None:
    holders = Counter(task for slot in scheduler.slots for task in slot.held)
    copies = scheduler.copies()
    assert {task for task, count in holders.items() if count > 1} == set(copies)
    assert all(count <= 2 for count in holders.values())
    for task, copy in copies.items():
        assert task in scheduler.slots[copy].held


def counts_are_right(scheduler: Scheduler) -> None:
    slots, state, feeding = scheduler.slots, scheduler._state, scheduler._feeding
    assert state.in_service == sum(slot.in_service for slot in slots)
    assert state.starting == sum(slot.phase is Phase.STARTING for slot in slots)
    assert feeding.idle_count == sum(slot.room is Room.IDLE for slot in slots)
    assert feeding.hungry_count == sum(slot.room is Room.HUNGRY for slot in slots)
    assert all(slot in feeding._idle for slot in slots if slot.room is Room.IDLE)
    assert all(slot in feeding._hungry for slot in slots if slot.room is Room.HUNGRY)
    assert all(slot in feeding.loaded for slot in slots if slot.in_loaded)
    assert scheduler._moving._on_their_way == sum(slot.recalled_for_idle for slot in slots)
    for slot in slots:
        if slot.room is not Room.NONE:
            assert slot.phase is Phase.READY
            assert not slot.told
            assert not slot.leaving
            assert slot.stalled_on is None
            assert (slot.room is Room.IDLE) == (not slot.held)
        if slot.held:
            assert slot.phase in (Phase.READY, Phase.DYING)


def no_slot_idles_while_tasks_wait(scheduler: Scheduler) -> None:
    if scheduler._feeding.idle_count:
        assert not scheduler._waiting.pending.count
        assert not scheduler._waiting.groups


def queues_are_bounded(scheduler: Scheduler) -> None:
    settings = scheduler.settings
    most = settings.fixed_window or max(MOST, LEAST * settings.batch_size)
    for slot in scheduler.slots:
        # one poisoned task may come on top
        assert len(slot.held) <= most + 1 or slot.group is not None


def nothing_is_forgotten(scheduler: Scheduler) -> None:
    """Whatever must happen by itself has its alarm, and ``wake_at`` is not after it."""
    if scheduler.ended:
        assert scheduler.wake_at is None
        return
    wake_at = NEVER if scheduler.wake_at is None else scheduler.wake_at
    to_start = {*scheduler._lifecycle._unborn, *scheduler._lifecycle._to_restart}
    for slot in scheduler.slots:
        assert wake_at <= slot.check_at
        assert wake_at <= slot.deadline_at
        if slot.phase in WAITS_FOR_A_DEADLINE:
            assert slot.deadline_at < NEVER
        if slot.phase is Phase.STARTING and scheduler.settings.setup_timeout is not None:
            assert slot.deadline_at < NEVER
        if slot.phase is Phase.WAITING:
            assert slot.deadline_at < NEVER or slot in to_start
        if slot.phase is Phase.READY and (slot.held or slot.told) and scheduler.settings.task_timeout is not None:
            assert slot.check_at < NEVER
        if slot.phase is Phase.READY and slot.stalled_on is not None:  # or else nothing will ever end the stall
            assert slot.stalled_on in slot.held or slot.stalled_on in slot.told or slot.lost_race
    delayed_until = scheduler._waiting.delayed_until
    assert delayed_until is None or wake_at <= delayed_until
