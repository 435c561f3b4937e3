"""A whole run in virtual time: simulated workers under the real scheduler.

    Simulation ──inputs──► Scheduler ──actions──► SimulatedWorker (one per slot and life)
        ▲                                              │
        └───────────────── events, a heap ◄────────────┘

Nothing sleeps: the clock jumps from event to event, so a thousand workers live through a day in seconds. The same seed
gives the same run. Whatever must never happen is checked on the way by ``Ledger``; an error names the seed.

    report = Simulation(SchedulerSettings(slots=4), tasks=400, execution=lambda task, dice: Execution(0.01)).run()
    assert report.makespan_s < 1.1
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_dispatch.scheduling import Scheduler, SchedulerSettings
from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told
from gpu_dispatch.testing.ledger import Ledger
from gpu_dispatch.testing.simulated_worker import Execution, Faults, SimulatedWorker

SAME_INSTANT = 10_000
"""So many inputs without the clock moving mean that it never will."""


class NeverEnds(AssertionError):
    """The run waits for nothing, turns in circles, or takes longer than it was allowed."""


@dataclass(slots=True)
class Report:
    makespan_s: float = 0.0
    """From the first submission to the last settled task."""
    ended_at: float = 0.0
    no_worker_left: bool = False
    words: dict[str, int] = field(default_factory=dict)
    """How many tasks ended in success, error, timeout, cancelled."""
    inputs: int = 0
    sends: int = 0
    recalls: int = 0
    moves: dict[int, int] = field(default_factory=dict)
    """task → how often it was given back unstarted."""
    starts: int = 0
    kills: int = 0
    retired: list[int] = field(default_factory=list)
    copied: int = 0
    waits_s: dict[int, float] = field(default_factory=dict)
    """task → the longest time for which it waited in a worker behind one and the same running task."""
    devices: dict[int, list[int]] = field(default_factory=dict)
    """task → the devices on which it was begun."""


class Simulation:
    def __init__(
        self,
        settings: SchedulerSettings,
        tasks: int,
        execution: Callable[[int, random.Random], Execution] = lambda task, dice: Execution(),
        *,
        seed: int = 0,
        faults: Faults | None = None,
        costs: Sequence[float] | None = None,
        queue_size: int = 1024,
        pull_s: float = 0.0,
        latency_s: float = 0.0003,
        setup_s: float = 0.01,
        cleanup_s: float = 0.001,
        after_each: Callable[[Simulation], None] | None = None,
    ) -> None:
        self.settings = settings
        self.scheduler = Scheduler(settings)
        self.faults = faults or Faults()
        self.dice = random.Random(seed)
        self.latency_s = latency_s
        self.setup_s = setup_s
        self.cleanup_s = cleanup_s
        self.now = 0.0
        self.workers: dict[int, SimulatedWorker] = {}
        self.report = Report()
        self.ledger = Ledger(self)
        self.seed = seed
        self._tasks = tasks
        self._costs = costs
        self._execution = execution
        self._credit = queue_size
        self._pull_s = pull_s
        self._submitted = 0
        self._feeding = False
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._event_number = 0
        self._first_submitted_at = 0.0
        self._after_each = after_each
        self._depth = 0
        self.running_in = -1
        """The slot for which ``execution`` is being asked."""
        self._hands: dict[type, Callable[[Any], None]] = {
            do.StartWorker: self._start_worker,
            do.SendTasks: self._send_tasks,
            do.RecallTasks: self._recall_tasks,
            do.PeekWorker: self._peek,
            do.KillWorker: self._kill,
            do.FinishWorker: self._finish,
            do.RetireSlot: lambda action: self.report.retired.append(action.slot),
            do.SettleSuccess: self._settle_success,
            do.SettleFailure: self._settle_failure,
            do.RetryTask: self.ledger.retried,
            do.EndRun: self._end_run,
        }

    # --- the clock -------------------------------------------------------------------------------------------

    def at(self, delay_s: float, step: Callable[[], None]) -> None:
        self._event_number += 1
        heapq.heappush(self._events, (self.now + delay_s, self._event_number, step))

    def run(self, *, at_most_s: float = 1e7) -> Report:
        """Until the scheduler says that the run has ended."""
        self.tell(told.TimePassed())
        events, scheduler = self._events, self.scheduler
        same_instant = 0
        while not scheduler.ended:
            before, wake_at = self.now, scheduler.wake_at
            if events and (wake_at is None or events[0][0] <= wake_at):
                self.now, _, step = heapq.heappop(events)
                step()
            elif wake_at is not None:
                self.now = max(self.now, wake_at)
                self.tell(told.TimePassed())
            else:
                raise NeverEnds(f"seed {self.seed}: the scheduler waits for nothing, {scheduler.unsettled} unsettled")
            same_instant = same_instant + 1 if self.now == before else 0
            if same_instant > SAME_INSTANT or self.now > at_most_s:
                raise NeverEnds(f"seed {self.seed}: still at {self.now} s with {scheduler.unsettled} unsettled tasks")
        self.ledger.check_end()
        self.report.ended_at = self.now
        return self.report

    # --- told to the scheduler -------------------------------------------------------------------------------

    def tell(self, what: told.Input) -> list[do.Action]:
        self.report.inputs += 1
        self._depth += 1
        actions = self.scheduler.handle(what, self.now)
        self.ledger.decided(what, actions)
        for action in actions:
            self._hands[type(action)](action)  # which may tell something itself, as in the engine
        self._depth -= 1
        if self._after_each is not None and not self._depth:
            self._after_each(self)
        return actions

    def hear(self, worker: SimulatedWorker, what: told.Input) -> None:
        """A worker's words have arrived. Those of a life that is over were told before its death."""
        if self.workers.get(worker.slot) is not worker:
            raise AssertionError(f"seed {self.seed}: slot {worker.slot} was used again before its worker was gone")
        if isinstance(what, told.WorkerDied | told.WorkerFinished):
            del self.workers[worker.slot]
        if isinstance(what, told.TasksGivenBack):
            for task in what.task_ids:
                self.report.moves[task] = self.report.moves.get(task, 0) + 1
        self.ledger.heard(worker, what)
        self.tell(what)
        if isinstance(what, told.WorkerReady) and not self._feeding:
            self._feeding = True
            self._first_submitted_at = self.now
            self._pull()

    def _pull(self) -> None:
        """The feeder: takes what the credit allows; all at once, or an item every ``pull_s``."""
        if self.scheduler.ended or self.ledger.input_ended:
            return
        count = min(self._credit, self._tasks - self._submitted)
        if self._pull_s:
            count = min(1, count)
        if count > 0:
            first = self._submitted
            self._submitted += count
            self._credit -= count
            costs = None if self._costs is None else self._costs[first : first + count]
            self.tell(told.TasksSubmitted(range(first, first + count), costs))
        if self._submitted == self._tasks:
            self.end_input()
        elif self._pull_s and count:
            self.at(self._pull_s, self._pull)

    def end_input(self) -> None:
        if not self.ledger.input_ended:
            self.tell(told.InputEnded())

    # --- asked by the scheduler ------------------------------------------------------------------------------

    def _start_worker(self, action: do.StartWorker) -> None:
        if action.slot in self.workers:
            raise AssertionError(f"seed {self.seed}: slot {action.slot} was started while its worker lives")
        self.report.starts += 1
        self.workers[action.slot] = SimulatedWorker(self, action.slot)

    def _send_tasks(self, action: do.SendTasks) -> None:
        self.report.sends += 1
        worker = self.workers.get(action.slot)
        if worker is not None:  # else it has just died, and that will be told
            worker.receive_tasks(tuple(action.task_ids), action.together)

    def _recall_tasks(self, action: do.RecallTasks) -> None:
        self.report.recalls += 1
        worker = self.workers.get(action.slot)
        if worker is not None:
            worker.receive_recall(action.count)

    def _peek(self, action: do.PeekWorker) -> None:
        worker = self.workers.get(action.slot)
        running = {} if worker is None or worker.since is None else dict.fromkeys(worker.running, worker.since)
        self.tell(told.WorkerPeeked(action.slot, running))

    def _kill(self, action: do.KillWorker) -> None:
        self.report.kills += 1
        worker = self.workers.get(action.slot)
        if worker is not None:
            worker.kill()

    def _finish(self, action: do.FinishWorker) -> None:
        worker = self.workers.get(action.slot)
        if worker is not None:
            worker.receive_finish()

    def _settle_success(self, action: do.SettleSuccess) -> None:
        self._settled("success", len(action.task_ids))

    def _settle_failure(self, action: do.SettleFailure) -> None:
        self._settled(action.word, 1)

    def _settled(self, word: str, count: int) -> None:
        words = self.report.words
        words[word] = words.get(word, 0) + count
        self.report.makespan_s = self.now - self._first_submitted_at
        was_empty = not self._credit
        self._credit += count
        if was_empty or not self._pull_s:
            self.at(0.0, self._pull)

    def _end_run(self, action: do.EndRun) -> None:
        self.report.no_worker_left = action.no_worker_left

    # --- told by workers -------------------------------------------------------------------------------------

    def begin(self, task: int, slot: int) -> Execution:
        self.ledger.begun(task, slot)
        self.running_in = slot
        self.report.devices.setdefault(task, []).append(self.scheduler.slots[slot].device)
        return self._execution(task, self.dice)

    def end(self, tasks: tuple[int, ...]) -> None:
        self.ledger.ended(tasks)

    def note_wait(self, task: int, waited_s: float) -> None:
        if waited_s > self.report.waits_s.get(task, 0.0):
            self.report.waits_s[task] = waited_s
