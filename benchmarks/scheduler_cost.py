"""What the pure scheduler costs per task: real inputs, virtual time, no process and no pipe.

A simulated run is recorded, then its inputs are told to a fresh scheduler, and only that is timed: the scheduler is
pure, so it decides the same again. The feeder tops the credit up with what was settled.

``python -m benchmarks.scheduler_cost`` prints the figures for few and many slots, long and short runs, frames of one
task and of many.
"""

from __future__ import annotations

import gc
import heapq
from collections import deque
from time import perf_counter

from benchmarks.job import Job
from gpu_dispatch.scheduling import Scheduler, SchedulerSettings, actions, inputs

TASK_S = 0.001
ANSWER_AFTER = 4
"""Tasks between two answers: real workers of 1 ms tasks answer every 4 ms."""

Trace = list[tuple[inputs.Input, float]]


class Simulation:
    """Workers that never fail, under the real scheduler; ``trace`` is what it was told, and when."""

    def __init__(self, slots: int, count: int, task_s: float = TASK_S, answer_after: int = ANSWER_AFTER) -> None:
        self.scheduler = new_scheduler(slots)
        self.trace: Trace = []
        self.now = 0.0
        self.settled = 0
        self._task_s = task_s
        self._answer_after = answer_after
        self._to_submit = range(count)
        self._queues: list[deque[int]] = [deque() for _ in range(slots)]
        self._answers: list[tuple[float, int, int]] = []  # (at, slot, tasks): the next answer of each busy worker
        self._submit_after_answer = 0

    def run(self, credit: int) -> None:
        self._tell(inputs.TimePassed())
        self._submit(credit)
        while not self.scheduler.ended:
            wake_at = self.scheduler.wake_at
            if self._answers and (wake_at is None or self._answers[0][0] <= wake_at):
                self.now, slot, tasks = heapq.heappop(self._answers)
                self._answer(slot, tasks)
            elif wake_at is not None:
                self.now = max(self.now, wake_at)
                self._tell(inputs.TimePassed())
            else:
                raise RuntimeError("the scheduler waits for nothing")
            if self._submit_after_answer:
                self._submit_after_answer, settled = 0, self._submit_after_answer
                self._submit(settled)

    def _submit(self, count: int) -> None:
        tasks, self._to_submit = self._to_submit[:count], self._to_submit[count:]  # ranges, as in the engine
        if tasks:
            self._tell(inputs.TasksSubmitted(tasks))
            if not self._to_submit:
                self._tell(inputs.InputEnded())

    def _answer(self, slot: int, tasks: int) -> None:
        queue = self._queues[slot]
        done = [queue.popleft() for _ in range(min(tasks, len(queue)))]
        if queue:
            self._work(slot)
        self._tell(inputs.TasksSucceeded(slot, done, len(done) * self._task_s))

    def _work(self, slot: int) -> None:
        tasks = min(self._answer_after, len(self._queues[slot]))
        heapq.heappush(self._answers, (self.now + tasks * self._task_s, slot, tasks))

    def _tell(self, what: inputs.Input) -> None:
        self.trace.append((what, self.now))
        for action in self.scheduler.handle(what, self.now):
            self._perform(action)

    def _perform(self, action: actions.Action) -> None:
        if isinstance(action, actions.SettleSuccess):
            self.settled += len(action.task_ids)
            self._submit_after_answer += len(action.task_ids)
        elif isinstance(action, actions.SendTasks):
            idle = not self._queues[action.slot]
            self._queues[action.slot].extend(action.task_ids)
            if idle:
                self._work(action.slot)
        elif isinstance(action, actions.StartWorker):
            self._tell(inputs.WorkerReady(action.slot))
        elif isinstance(action, actions.PeekWorker):
            queue = self._queues[action.slot]
            self._tell(inputs.WorkerPeeked(action.slot, (queue[0],) if queue else (), self.now if queue else None))
        elif isinstance(action, actions.RecallTasks):
            self._tell(inputs.TasksGivenBack(action.slot, []))  # all of it is being worked on
        elif isinstance(action, actions.FinishWorker):
            self._tell(inputs.WorkerFinished(action.slot))


def new_scheduler(slots: int) -> Scheduler:
    return Scheduler(SchedulerSettings(slots=slots, task_timeout=30.0))


def record(slots: int, count: int, task_s: float = TASK_S, answer_after: int = ANSWER_AFTER) -> Trace:
    simulation = Simulation(slots, count, task_s, answer_after)
    simulation.run(credit=max(1024, 16 * slots))
    if simulation.settled != count:
        raise RuntimeError(f"{simulation.settled} of {count} tasks were settled")
    return simulation.trace


def replay_s(slots: int, trace: Trace) -> float:
    handle = new_scheduler(slots).handle
    gc.collect()
    gc.freeze()  # the trace is ours, not the scheduler's: the collector need not look at it
    before = perf_counter()
    for what, now in trace:
        handle(what, now)
    elapsed_s = perf_counter() - before
    gc.unfreeze()
    return elapsed_s


def run(job: Job) -> None:
    """As a load of ``python -m benchmarks``."""
    trace = record(job.workers, job.count)
    job.taken = job.count
    job.started_at, job.ended_at = 0.0, replay_s(job.workers, trace)


def main() -> None:
    print("µs per task                  8 slots   1,024 slots   8 slots, ten times the tasks")
    for name, task_s, answer_after in (
        ("frames of one, 100 ms tasks", 0.1, 1),
        ("frames of one, 1 ms tasks", 0.001, 1),
        ("frames of 4, 1 ms tasks", 0.001, 4),
        ("frames of 64, 10 µs tasks", 0.00001, 64),
    ):
        figures = []
        for slots, count in ((8, 20_000), (1024, 100_000), (8, 200_000)):
            trace = record(slots, count, task_s, answer_after)
            figures.append(min(replay_s(slots, trace) for _ in range(5)) / count * 1e6)
        print(f"{name:27} {figures[0]:8.2f} {figures[1]:13.2f} {figures[2]:14.2f}")


if __name__ == "__main__":
    main()
