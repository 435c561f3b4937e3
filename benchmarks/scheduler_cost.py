"""What the pure scheduler costs per task: real inputs, virtual time, no process and no pipe.

The simulated workers take 1 ms a task and answer every 4 ms, as real ones do; the feeder tops the credit up with what
was settled. Only the time inside ``handle`` counts.
"""

from __future__ import annotations

import heapq
from collections import deque
from time import perf_counter

from benchmarks.job import Job
from gpu_dispatch.scheduling import Scheduler, SchedulerSettings, actions, inputs

TASK_S = 0.001
ANSWER_AFTER = 4
"""Tasks between two answers."""


class Simulation:
    def __init__(self, slots: int, count: int) -> None:
        self.scheduler = Scheduler(SchedulerSettings(slots=slots, task_timeout=30.0))
        self.now = 0.0
        self.inside_s = 0.0
        self.settled = 0
        self._to_submit = deque(range(count))
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
        tasks = [self._to_submit.popleft() for _ in range(min(count, len(self._to_submit)))]
        if tasks:
            self._tell(inputs.TasksSubmitted(tasks))
            if not self._to_submit:
                self._tell(inputs.InputEnded())

    def _answer(self, slot: int, tasks: int) -> None:
        queue = self._queues[slot]
        done = [queue.popleft() for _ in range(min(tasks, len(queue)))]
        if queue:
            self._work(slot)
        self._tell(inputs.TasksSucceeded(slot, done, len(done) * TASK_S))

    def _work(self, slot: int) -> None:
        tasks = min(ANSWER_AFTER, len(self._queues[slot]))
        heapq.heappush(self._answers, (self.now + tasks * TASK_S, slot, tasks))

    def _tell(self, what: inputs.Input) -> None:
        before = perf_counter()
        asked = self.scheduler.handle(what, self.now)
        self.inside_s += perf_counter() - before
        for action in asked:
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


def run(job: Job) -> None:
    simulation = Simulation(job.workers, job.count)
    simulation.run(credit=max(1024, 16 * job.workers))
    if simulation.settled != job.count:
        raise RuntimeError(f"{simulation.settled} of {job.count} tasks were settled")
    job.taken = job.count
    job.started_at, job.ended_at = 0.0, simulation.inside_s
