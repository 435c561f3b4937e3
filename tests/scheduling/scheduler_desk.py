"""A desk at which a test plays the engine: it tells the scheduler facts and looks at what it is asked to do."""

from __future__ import annotations

from typing import Any

from scheduler_consistency import check

from gpu_dispatch.options import RetryPolicy
from gpu_dispatch.scheduling import Scheduler, SchedulerSettings
from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told


class Desk:
    def __init__(self, slots: int = 2, *, retries: int | RetryPolicy = 0, **settings: Any) -> None:
        policy = retries if isinstance(retries, RetryPolicy) else RetryPolicy(retries=retries)
        self.scheduler = Scheduler(SchedulerSettings(slots=slots, retry=policy, **settings))
        self.now = 0.0
        self.shows: dict[int, told.WorkerPeeked] = {}
        """What a worker shows when it is looked at. Those not listed have just begun their first task."""

    def with_ready_workers(self) -> Desk:
        self.tell(told.TimePassed())
        while waiting := [slot.number for slot in self.scheduler.slots if slot.phase.value == "starting"]:
            for slot in waiting:
                self.tell(ready(slot))
        return self

    def tell(self, *facts: told.Input, at: float | None = None) -> list[do.Action]:
        """Everything the scheduler asks for in answer, but for looks at workers; it is consistent after each fact."""
        self.now = self.now if at is None else at
        asked: list[do.Action] = []
        for fact in facts:
            for action in self.scheduler.handle(fact, self.now):
                if isinstance(action, do.PeekWorker):
                    asked += map(_plain, self.scheduler.handle(self._peek(action.slot), self.now))
                else:
                    asked.append(_plain(action))
            check(self.scheduler)
        return asked

    def _peek(self, slot: int) -> told.WorkerPeeked:
        return self.shows.get(slot) or running(*self.held(slot)[:1], slot=slot, since=self.now)

    def wait(self, until: float) -> list[do.Action]:
        """What the scheduler asks for by itself up to an instant."""
        return [action for _, action in self.watch(until)]

    def watch(self, until: float) -> list[tuple[float, do.Action]]:
        """The same, with the instants."""
        story: list[tuple[float, do.Action]] = []
        while (wake_at := self.scheduler.wake_at) is not None and wake_at <= until:
            actions = self.tell(told.TimePassed(), at=max(self.now, wake_at))
            story += [(self.now, action) for action in actions]
        self.now = max(self.now, until)
        return story

    def phase(self, slot: int) -> str:
        return self.scheduler.slots[slot].phase.value

    def held(self, slot: int) -> list[int]:
        return list(self.scheduler.slots[slot].held)


def _plain(action: do.Action) -> do.Action:
    if isinstance(action, do.SendTasks):
        return do.SendTasks(action.slot, list(action.task_ids), action.together)
    if isinstance(action, do.SettleSuccess):
        return do.SettleSuccess(action.slot, list(action.task_ids))
    return action


# --- facts -------------------------------------------------------------------------------------------------


def submitted(*tasks: int, costs: list[float] | None = None) -> told.TasksSubmitted:
    return told.TasksSubmitted(tasks, costs)


def ready(slot: int) -> told.WorkerReady:
    return told.WorkerReady(slot)


def succeeded(*tasks: int, slot: int, each_s: float = 0.1) -> told.TasksSucceeded:
    return told.TasksSucceeded(slot, tasks, each_s * len(tasks))


def failed(task: int, slot: int, kind: str = "error") -> told.TaskFailed:
    return told.TaskFailed(slot, task, kind, f"{kind} of {task}")


def given_back(*tasks: int, slot: int) -> told.TasksGivenBack:
    return told.TasksGivenBack(slot, tasks)


def running(*tasks: int, slot: int, since: float, unread: bool = False) -> told.WorkerPeeked:
    return told.WorkerPeeked(slot, dict.fromkeys(tasks, since), unread)


def running_nothing(slot: int) -> told.WorkerPeeked:
    return told.WorkerPeeked(slot, {})


def died(*suspects: int, slot: int, cause: str = "SIGKILL") -> told.WorkerDied:
    return told.WorkerDied(slot, cause, suspects)


def setup_raised(slot: int, *, fatal: bool = False) -> told.SetupRaised:
    return told.SetupRaised(slot, "ValueError: no such model", fatal)


def stop(drain_until: float) -> told.StopAsked:
    return told.StopAsked(drain_until, "Ctrl-C")


input_ended = told.InputEnded()
time_passed = told.TimePassed()


# --- actions -----------------------------------------------------------------------------------------------


def send(slot: int, *tasks: int, together: bool = False) -> do.SendTasks:
    return do.SendTasks(slot, list(tasks), together)


def succeed(slot: int, *tasks: int) -> do.SettleSuccess:
    return do.SettleSuccess(slot, list(tasks))


def settled(actions: list[do.Action]) -> dict[int, str]:
    """Each task that was settled with a failure, and how: ``word`` or ``word (kind)``."""
    return {
        action.task_id: action.word if action.word == action.kind else f"{action.word} ({action.kind})"
        for action in actions
        if isinstance(action, do.SettleFailure)
    }


def only(kind: type, actions: list[do.Action]) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]
