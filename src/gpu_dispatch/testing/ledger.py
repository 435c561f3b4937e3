"""What must never happen in a run, checked from outside the scheduler as it goes.

- Each task is settled exactly once, with a success only on its worker's word.
- A task is in the hands of one live worker at most (of two, when it is copied), and begins nowhere after its end.
- It is executed at most 1 + retries times. Executions that were cut short through no fault of its own (the worker was
  killed on another task's account, a batch is being halved) do not count; a broken GPU context allows one more.
- The run ends once, when all is settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told

if TYPE_CHECKING:
    from gpu_dispatch.testing.simulated_worker import SimulatedWorker
    from gpu_dispatch.testing.simulation import Simulation


class Broken(AssertionError):
    """The scheduler did what it must never do."""


class Ledger:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._retries = simulation.settings.retry.retries
        self._speculates = simulation.settings.speculate
        self._open: set[int] = set()
        self._settled: set[int] = set()
        self._hands: dict[int, set[int]] = {}  # slot → tasks sent to its worker and not heard of again
        self._holders: dict[int, list[int]] = {}  # task → those slots
        self._running: dict[int, int] = {}
        self._executions: dict[int, int] = {}
        self._excused: dict[int, int] = {}
        self._dying: SimulatedWorker | None = None
        self._ran: list[int] = []  # in the worker that dies
        self._ends = 0
        self.input_ended = False
        self.submitted = 0

    def _refuse(self, why: str) -> None:
        raise Broken(f"seed {self._simulation.seed}, {self._simulation.now:.6f} s: {why}")

    # --- decisions -------------------------------------------------------------------------------------------

    def decided(self, what: told.Input, actions: Sequence[do.Action]) -> None:
        """The scheduler answered ``what`` with ``actions``."""
        if isinstance(what, told.TasksSubmitted):
            self._open.update(what.task_ids)
            self.submitted += len(what.task_ids)
        elif isinstance(what, told.InputEnded | told.StopAsked):
            self.input_ended = True
        for action in actions:
            if self._ends and not isinstance(action, do.SettleFailure):
                self._refuse(f"{action} after the end of the run")
            if isinstance(action, do.SettleSuccess):
                if not isinstance(what, told.TasksSucceeded) or not set(action.task_ids) <= set(what.task_ids):
                    self._refuse(f"{action} in answer to {what}")
                self._settle(action.task_ids)
            elif isinstance(action, do.SettleFailure):
                self._settle((action.task_id,))
                self._check_attempt(action.task_id, action.attempt)
            elif isinstance(action, do.SendTasks):
                self._send(action)
            elif isinstance(action, do.RetireSlot):
                self._write_off(action.slot)
            elif isinstance(action, do.EndRun):
                self._ends += 1
                if self._open:
                    self._refuse(f"the run ends with {len(self._open)} unsettled tasks")
        if isinstance(what, told.WorkerDied):
            self._check_charged(self._ran, actions)

    def _settle(self, tasks: Iterable[int]) -> None:
        for task in tasks:
            if task not in self._open:
                self._refuse(f"task {task} is settled {'twice' if task in self._settled else 'unasked'}")
            self._open.discard(task)
            self._settled.add(task)

    def _send(self, action: do.SendTasks) -> None:
        copies = self._simulation.scheduler.copies() if self._speculates else {}
        for task in action.task_ids:
            if task not in self._open:
                self._refuse(f"task {task} is sent after its end")
            holders = self._holders.setdefault(task, [])
            if holders and task not in copies:
                self._refuse(f"task {task} is sent to slot {action.slot} while slot {holders} has it")
            if action.slot in holders or len(holders) > 1:
                self._refuse(f"task {task} has more than one copy: {[*holders, action.slot]}")
            holders.append(action.slot)
            self._hands.setdefault(action.slot, set()).add(task)

    def _write_off(self, slot: int) -> None:
        """If it is retired because it cannot be killed, its tasks are settled, or their second copy is all there is."""
        for task in self._hands.pop(slot, ()):
            self._let_go(task, slot)

    def _let_go(self, task: int, slot: int) -> None:
        holders = self._holders.get(task, [])
        if slot in holders:
            holders.remove(slot)
            if not holders:
                del self._holders[task]

    def retried(self, action: do.RetryTask) -> None:
        self._check_attempt(action.task_id, action.attempt + 1)

    def _check_attempt(self, task: int, attempt: int) -> None:
        if attempt > 1 + self._retries + 1:  # the one more is for a poisoned context
            self._refuse(f"task {task} has come to attempt {attempt}")

    def _check_charged(self, suspects: Sequence[int], actions: Sequence[do.Action]) -> None:
        """Whoever ran when a worker died pays for it, unless there is a reason."""
        charged = {a.task_id for a in actions if isinstance(a, do.RetryTask | do.SettleFailure)}
        free = [task for task in suspects if task not in charged and task in self._open]
        for task in free:
            self._excused[task] = self._excused.get(task, 0) + 1
        killed_by_us = self._dying is not None and self._dying.killed
        if free and len(suspects) == 1 and not killed_by_us and not self._speculates:
            self._refuse(f"task {free[0]} ran when its worker died, and was not charged")

    # --- what workers do -------------------------------------------------------------------------------------

    def heard(self, worker: SimulatedWorker, what: told.Input) -> None:
        """About to be told to the scheduler."""
        hands = self._hands.setdefault(worker.slot, set())
        gone: Iterable[int] = ()
        self._dying = None
        if isinstance(what, told.TasksSucceeded | told.TasksGivenBack):
            gone = what.task_ids
        elif isinstance(what, told.TaskFailed):
            gone = (what.task_id,)
        elif isinstance(what, told.WorkerDied | told.WorkerFinished):
            gone = tuple(hands)
            self._dying = worker
            if isinstance(what, told.WorkerDied):
                self._ran = [task for task in what.suspects if task in hands]  # others it had answered for
                self.ended(self._ran)
        for task in gone:
            hands.discard(task)
            self._let_go(task, worker.slot)

    def begun(self, task: int, slot: int) -> None:
        if task not in self._open and not self._speculates:
            self._refuse(f"task {task} begins in slot {slot} after its end")
        if self._running.get(task) and not self._speculates:
            self._refuse(f"task {task} begins in slot {slot} while it runs elsewhere")
        self._running[task] = self._running.get(task, 0) + 1
        executions = self._executions[task] = self._executions.get(task, 0) + 1
        if executions > 1 + self._retries + 1 + self._excused.get(task, 0) + self._speculates:
            self._refuse(f"task {task} is executed for the {executions}th time")

    def ended(self, tasks: Iterable[int]) -> None:
        for task in tasks:
            left = self._running.get(task, 0) - 1
            if left > 0:
                self._running[task] = left
            else:
                self._running.pop(task, None)

    def check_end(self) -> None:
        if self._ends != 1:
            self._refuse(f"the run ended {self._ends} times")
        if self._open:
            self._refuse(f"{len(self._open)} tasks were never settled")
