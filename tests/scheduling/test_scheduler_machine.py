"""The real scheduler against a model of workers that do whatever they like, in any order Hypothesis can think of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scheduler_consistency import check

from gpu_dispatch.options import RetryPolicy
from gpu_dispatch.scheduling import Scheduler, SchedulerSettings
from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told
from gpu_dispatch.testing.ledger import Ledger

STEPS_TO_THE_END = 20_000


@dataclass
class Worker:
    slot: int
    state: str = "setup"  # setup, failed, ready
    mailbox: list[tuple[int, ...]] = field(default_factory=list)
    running: tuple[int, ...] = ()
    since: float | None = None
    shows: tuple[tuple[int, ...], float | None] | None = None  # what it has answered, and not yet taken from its board
    done: list[int] = field(default_factory=list)  # finished, and not told yet
    recalls: list[int] = field(default_factory=list)
    killed: bool = False
    finishing: bool = False

    @property
    def hands(self) -> set[int]:
        return {task for group in self.mailbox for task in group} | set(self.running) | set(self.done)


pick = st.integers(0, 7)  # of those to which a rule applies, by number modulo how many there are


class SchedulerMachine(RuleBasedStateMachine):
    seed = "machine"

    @initialize(
        slots=st.integers(1, 4),
        retries=st.integers(0, 2),
        backoff_s=st.sampled_from([0.0, 0.1]),
        batch_size=st.sampled_from([1, 1, 3]),
        window=st.sampled_from([None, 1, 3]),
        timeout_s=st.sampled_from([None, 0.5]),
        concurrency=st.sampled_from([None, 1]),
        cores=st.sampled_from([None, 1]),
        max_restarts=st.sampled_from([0, 1, 10]),
        speculate=st.booleans(),
        same_device=st.booleans(),
    )
    def begin_run(
        self,
        slots: int,
        retries: int,
        backoff_s: float,
        batch_size: int,
        window: int | None,
        timeout_s: float | None,
        concurrency: int | None,
        cores: int | None,
        max_restarts: int,
        speculate: bool,
        same_device: bool,
    ) -> None:
        self.settings = SchedulerSettings(
            slots=slots,
            retry=RetryPolicy(retries=retries, backoff_s=backoff_s),
            max_restarts=max_restarts,
            task_timeout=timeout_s,
            timeout_grace=0.25,
            setup_timeout=5.0,
            cleanup_timeout=2.0,
            setup_concurrency=concurrency,
            cores=cores,
            batch_size=batch_size,
            fixed_window=window,
            speculate=speculate,
            devices=(0,) * slots if same_device else None,
        )
        self.scheduler = Scheduler(self.settings)
        self.now = 0.0
        self.workers: dict[int, Worker] = {}
        self.ledger = Ledger(self)  # type: ignore[arg-type]  # it asks for no more than is here
        self.next_task = 0
        self.ended = False
        self.tell(told.TimePassed())

    # --- the engine ------------------------------------------------------------------------------------------

    def tell(self, what: told.Input) -> None:
        actions = self.scheduler.handle(what, self.now)
        self.ledger.decided(what, actions)
        for action in actions:
            self.perform(action)

    def perform(self, action: do.Action) -> None:
        worker = self.workers.get(getattr(action, "slot", -1))
        if isinstance(action, do.StartWorker):
            assert worker is None, "started while the old one lives"
            self.workers[action.slot] = Worker(action.slot)
        elif isinstance(action, do.RetryTask):
            self.ledger.retried(action)
        elif isinstance(action, do.EndRun):
            self.ended = True
        elif isinstance(action, do.PeekWorker):
            assert worker is not None
            running, since = worker.shows or (worker.running, worker.since)
            self.tell(told.WorkerPeeked(action.slot, dict.fromkeys(running, since)))
        elif isinstance(action, do.SendTasks):
            assert worker is not None
            assert worker.state == "ready"
            tasks = tuple(action.task_ids)
            worker.mailbox += [tasks] if action.together else [(task,) for task in tasks]
        elif isinstance(action, do.RecallTasks):
            assert worker is not None
            worker.recalls.append(action.count)
        elif isinstance(action, do.KillWorker):
            assert worker is not None
            worker.killed = True
        elif isinstance(action, do.FinishWorker):
            assert worker is not None
            assert not worker.hands
            worker.finishing = True

    def hear(self, worker: Worker, what: told.Input) -> None:
        if isinstance(what, told.WorkerDied | told.WorkerFinished):
            del self.workers[worker.slot]
        self.ledger.heard(worker, what)  # type: ignore[arg-type]
        self.tell(what)

    def one(self, number: int, *states: str, where: Any = lambda worker: True) -> Worker | None:
        found = [worker for worker in self.workers.values() if worker.state in states and where(worker)]
        return found[number % len(found)] if found else None

    # --- the user --------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.ledger.input_ended)
    @rule(count=st.integers(1, 6), with_costs=st.booleans())
    def submit(self, count: int, with_costs: bool) -> None:
        tasks = range(self.next_task, self.next_task + count)
        self.next_task += count
        self.tell(told.TasksSubmitted(tasks, [float(task % 3) for task in tasks] if with_costs else None))

    @precondition(lambda self: not self.ledger.input_ended)
    @rule()
    def end_input(self) -> None:
        self.tell(told.InputEnded())

    @precondition(lambda self: not self.ended)
    @rule(drain_s=st.sampled_from([0.0, 1.0]))
    def stop(self, drain_s: float) -> None:
        self.tell(told.StopAsked(self.now + drain_s, "Ctrl-C"))

    @precondition(lambda self: not self.ended and len(self.scheduler.slots) < 6)
    @rule(device=st.sampled_from([None, 0, 1]))
    def add_slot(self, device: int | None) -> None:
        self.tell(told.SlotAdded(device))

    @precondition(lambda self: not self.ended)
    @rule(number=pick)
    def remove_slot(self, number: int) -> None:
        self.tell(told.SlotRemoved(number % len(self.scheduler.slots)))

    @precondition(lambda self: not self.ended)
    @rule(number=pick, size=st.sampled_from([1, 2, 9]))
    def learn_sizes(self, number: int, size: int) -> None:
        self.tell(told.BatchSizeLearnt(number % len(self.scheduler.slots), size))
        self.tell(told.TasksWeighed(size, size << 22))

    # --- time ------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.ended)
    @rule(seconds=st.sampled_from([0.001, 0.02, 0.3, 3.0]))
    def pass_time(self, seconds: float) -> None:
        wake_at = self.scheduler.wake_at
        self.now += seconds
        if wake_at is not None and wake_at <= self.now:
            self.now = max(wake_at, self.now - seconds)
            self.tell(told.TimePassed())

    # --- workers ---------------------------------------------------------------------------------------------

    @rule(number=pick, fate=st.sampled_from(["ready", "ready", "raises", "fatal"]))
    def leave_setup(self, number: int, fate: str) -> None:
        worker = self.one(number, "setup")
        if worker is None:
            return
        if fate == "ready":
            worker.state = "ready"
            self.hear(worker, told.WorkerReady(worker.slot))
        else:
            worker.state = "failed"
            self.hear(worker, told.SetupRaised(worker.slot, "no such model", fatal=fate == "fatal"))

    @rule(number=pick)
    def begin_task(self, number: int) -> None:
        worker = self.one(number, "ready", where=lambda worker: worker.mailbox and not worker.running)
        if worker is None:
            return
        batch = worker.mailbox.pop(0)
        while len(batch) < self.settings.batch_size and worker.mailbox and len(worker.mailbox[0]) == 1:
            batch += worker.mailbox.pop(0)
        worker.running, worker.since, worker.shows = batch, self.now, None
        for task in batch:
            self.ledger.begun(task, worker.slot)

    @rule(number=pick, flush=st.booleans(), dawdles=st.booleans())
    def succeed(self, number: int, flush: bool, dawdles: bool) -> None:
        worker = self.one(number, "ready", where=lambda worker: worker.running)
        if worker is None:
            return
        worker.done += worker.running
        self.ledger.ended(worker.running)
        worker.shows = (worker.running, worker.since) if dawdles else None
        worker.running, worker.since = (), None
        if flush:
            self.flush(worker)

    def flush(self, worker: Worker) -> None:
        done, worker.done = worker.done, []
        if done:
            self.hear(worker, told.TasksSucceeded(worker.slot, done, 0.01 * len(done)))

    @rule(number=pick, kind=st.sampled_from(["error", "timeout", "transport", "poisoned"]))
    def fail(self, number: int, kind: str) -> None:
        worker = self.one(number, "ready", where=lambda worker: len(worker.running) == 1)
        if worker is None:
            return
        (task,) = worker.running
        self.ledger.ended((task,))
        worker.running, worker.since = (), None
        self.flush(worker)
        self.hear(worker, told.TaskFailed(worker.slot, task, kind, kind, (), 0.01))

    @rule(number=pick, kept=st.integers(0, 2))
    def answer_recall(self, number: int, kept: int) -> None:
        """Late, and with less than was asked for, if some have begun meanwhile."""
        worker = self.one(number, "ready", where=lambda worker: worker.recalls)
        if worker is not None:
            self._answer_recall(worker, kept)

    def _answer_recall(self, worker: Worker, kept: int) -> None:
        count = max(0, worker.recalls.pop(0) - kept)
        returned: list[int] = []
        while worker.mailbox and len(returned) < count:
            returned += worker.mailbox.pop()
        self.flush(worker)
        if self.workers.get(worker.slot) is worker:
            self.hear(worker, told.TasksGivenBack(worker.slot, returned))

    @rule(number=pick, killed_first=st.booleans())
    def die(self, number: int, killed_first: bool) -> None:
        """At any moment. What was finished is told before."""
        killed = self.one(number, "setup", "failed", "ready", where=lambda worker: worker.killed)
        worker = killed if killed_first and killed else self.one(number, "setup", "failed", "ready")
        if worker is not None:
            self._die(worker)

    def _die(self, worker: Worker) -> None:
        self.flush(worker)
        self.hear(worker, told.WorkerDied(worker.slot, "SIGKILL", worker.running))

    @rule(number=pick)
    def finish(self, number: int) -> None:
        worker = self.one(number, "ready", where=lambda worker: worker.finishing and not worker.hands)
        if worker is not None:
            self.hear(worker, told.WorkerFinished(worker.slot))

    # --- always ----------------------------------------------------------------------------------------------

    @invariant()
    def is_consistent(self) -> None:
        if hasattr(self, "scheduler"):
            check(self.scheduler)

    @invariant()
    def knows_who_has_what(self) -> None:
        for worker in getattr(self, "workers", {}).values():
            slot = self.scheduler.slots[worker.slot]
            if slot.in_service:
                assert set(slot.held) <= worker.hands
                assert worker.hands - set(slot.held) <= set(slot.told) | set(self.scheduler.copies())

    def teardown(self) -> None:
        """From wherever it is, with workers that behave from now on, the run comes to its end."""
        if not hasattr(self, "scheduler"):
            return
        if not self.ledger.input_ended and not self.ended:
            self.tell(told.InputEnded())
        for _ in range(STEPS_TO_THE_END):
            if self.ended:
                break
            self.is_consistent()
            self.knows_who_has_what()
            steps = [self._behave(worker) for worker in list(self.workers.values())]
            if not any(steps):
                assert self.scheduler.wake_at is not None, "it waits for nothing"
                self.now = max(self.now, self.scheduler.wake_at)
                self.tell(told.TimePassed())
        self.ledger.check_end()

    def _behave(self, worker: Worker) -> bool:
        """One step; whether there was one to do."""
        if self.workers.get(worker.slot) is not worker:
            return True
        if worker.killed or worker.state == "failed":
            self._die(worker)
        elif worker.state == "setup":
            worker.state = "ready"
            self.hear(worker, told.WorkerReady(worker.slot))
        elif worker.recalls:
            self._answer_recall(worker, 0)
        elif worker.running or worker.done:
            worker.done += worker.running
            self.ledger.ended(worker.running)
            worker.running, worker.since = (), None
            self.flush(worker)
        elif worker.mailbox:
            worker.running, worker.since = worker.mailbox.pop(0), self.now
            for task in worker.running:
                self.ledger.begun(task, worker.slot)
        elif worker.finishing:
            self.hear(worker, told.WorkerFinished(worker.slot))
        else:
            return False
        return True


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
