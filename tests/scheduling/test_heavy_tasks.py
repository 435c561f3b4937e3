"""Large tasks are counted in bytes as well: a slot does not hold hundreds of megabytes because its tasks are quick."""

from __future__ import annotations

from gpu_dispatch.scheduling import Scheduler, SchedulerSettings
from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told


def sent(actions: list[do.Action]) -> int:
    return sum(len(action.task_ids) for action in actions if isinstance(action, do.SendTasks))


def quick_slot() -> Scheduler:
    """One slot whose tasks take 10 µs, so that its window is hundreds of tasks."""
    scheduler = Scheduler(SchedulerSettings(slots=1))
    scheduler.handle(told.TimePassed(), 0.0)
    scheduler.handle(told.WorkerReady(0), 0.1)
    scheduler.handle(told.TasksSubmitted(range(2)), 0.2)
    for task in range(2):
        scheduler.handle(told.TasksSucceeded(0, [task], 1e-5), 0.3)
    return scheduler


def test_light_tasks_fill_the_window() -> None:
    assert sent(quick_slot().handle(told.TasksSubmitted(range(2, 500)), 0.4)) > 100


def test_heavy_tasks_are_held_by_the_megabyte() -> None:
    scheduler = quick_slot()
    scheduler.handle(told.TasksWeighed(count=2, size=2 * 600_000), 0.35)
    assert 2 <= sent(scheduler.handle(told.TasksSubmitted(range(2, 500)), 0.4)) <= 14


def test_two_are_held_however_heavy_they_are() -> None:
    scheduler = quick_slot()
    scheduler.handle(told.TasksWeighed(count=1, size=1 << 30), 0.35)
    assert sent(scheduler.handle(told.TasksSubmitted(range(2, 500)), 0.4)) == 2


def test_light_tasks_after_heavy_ones_fill_the_window_again() -> None:
    scheduler = quick_slot()
    scheduler.handle(told.TasksWeighed(count=1, size=1 << 30), 0.35)
    scheduler.handle(told.TasksWeighed(count=10, size=1000), 0.36)
    assert sent(scheduler.handle(told.TasksSubmitted(range(2, 500)), 0.4)) > 100
