"""A worker as the scheduler could meet it, without a process: it obeys ``Simulation``'s clock and dice.

It behaves as ``runtime/`` does: tasks wait in a mailbox and run in order; results leave in frames, at the latest when
there is nothing left to run; a recall is answered with the youngest unstarted tasks; after a death, what was finished
is still told, then the death, with the tasks that were running.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from gpu_dispatch.scheduling import inputs as told

if TYPE_CHECKING:
    from gpu_dispatch.testing.simulation import Simulation

FLUSH_S = 0.004
KILLED_AFTER_S = 0.001
"""From SIGKILL to the death."""
SOFT_UNWIND_S = 0.001
"""From the ring of the soft timeout to the task's end, unless the task ignores it."""


@dataclass(frozen=True, slots=True)
class Execution:
    """How one execution of a task goes."""

    duration_s: float = 0.001
    ends: str = "success"
    """``success error transport poisoned``; ``crash``: kills its worker; ``hang``: never, and ignores the soft timeout;
    ``ignore``: ignores the soft timeout, but ends by itself."""
    deaf: bool = False
    """It keeps the worker from answering recalls while it runs: native code that holds the interpreter."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What befalls workers, apart from their tasks. Chances are per worker or per occasion, from 0 to 1."""

    mean_life_s: float | None = None
    """Workers are killed from outside at random, on average after this long."""
    mean_until_freeze_s: float | None = None
    freeze_s: float = 1.0
    setup_raises: float = 0.0
    setup_dies: float = 0.0
    setup_hangs: float = 0.0
    cleanup_hangs: float = 0.0
    undead: float = 0.0
    """A kill does not work."""
    lingers: float = 0.0
    """A process whose setup raised does not end by itself."""
    dawdles: float = 0.0
    """Another process is given the processor right after a task: its board still shows it, though it was answered."""
    dawdle_s: float = 0.05


class SimulatedWorker:
    def __init__(self, simulation: Simulation, slot: int) -> None:
        self._simulation = simulation
        self.slot = slot
        self.alive = True
        self.ready = False
        self.running: tuple[int, ...] = ()
        self.since: float | None = None
        self.killed = False  # by the scheduler
        self._mailbox: deque[tuple[int, ...]] = deque()  # one task each, or the suspects that were sent together
        self._arrived_at: dict[int, float] = {}
        self._executions: list[Execution] = []
        self._began_at = 0.0  # the execution that is going on, or was the last
        self._broken_context = False
        self._done: list[int] = []
        self._done_s = 0.0
        self._failures: list[told.TaskFailed] = []
        self._flush_due_at = 0.0
        self._finishing = False
        self._frozen_until = 0.0
        self._last_words_at = 0.0
        self._deaf_until_end = False
        self._unanswered: list[int] = []  # recalls that came while it was deaf
        self._begin_life()

    # --- birth and death -------------------------------------------------------------------------------------

    def _begin_life(self) -> None:
        simulation, faults, dice = self._simulation, self._simulation.faults, self._simulation.dice
        setup_s = simulation.setup_s * dice.uniform(0.5, 1.5)
        fate = dice.random()
        if fate < faults.setup_raises:
            self._later(setup_s, self._raise_in_setup)
        elif fate < faults.setup_raises + faults.setup_dies:
            self._later(setup_s, lambda: self.die("died in its setup"))
        elif fate >= faults.setup_raises + faults.setup_dies + faults.setup_hangs:
            self._later(setup_s, self._become_ready)
        if faults.mean_life_s is not None:
            simulation.at(dice.expovariate(1 / faults.mean_life_s), lambda: self.die("SIGKILL from outside"))
        self._await_freeze()

    def _await_freeze(self) -> None:
        faults, dice = self._simulation.faults, self._simulation.dice
        if faults.mean_until_freeze_s is not None:
            self._later(dice.expovariate(1 / faults.mean_until_freeze_s), self._freeze)

    def _freeze(self) -> None:
        self._frozen_until = self._simulation.now + self._simulation.faults.freeze_s
        self._await_freeze()

    def _raise_in_setup(self) -> None:
        self._say(told.SetupRaised(self.slot, "ValueError: no such model"))
        if self._simulation.dice.random() >= self._simulation.faults.lingers:
            self._later(0.01, lambda: self.die("exit code 1"))

    def _become_ready(self) -> None:
        self.ready = True
        self._say(told.WorkerReady(self.slot))
        self._begin_next()

    def kill(self) -> None:
        """As the scheduler asked."""
        self.killed = True
        if self._simulation.dice.random() < self._simulation.faults.undead:
            self._frozen_until = inf  # in uninterruptible sleep: neither dead nor doing anything
        else:
            self._simulation.at(KILLED_AFTER_S, lambda: self.die("SIGKILL"))

    def die(self, cause: str) -> None:
        if not self.alive:
            return
        self._flush()  # what was on the board
        self.alive = False
        suspects = self.running
        self._say(told.WorkerDied(self.slot, cause, suspects))

    # --- mail ------------------------------------------------------------------------------------------------

    def receive_tasks(self, tasks: tuple[int, ...], together: bool) -> None:
        self._later(self._simulation.latency_s, lambda: self._deliver(tasks, together))

    def _deliver(self, tasks: tuple[int, ...], together: bool) -> None:
        for task in tasks:
            self._arrived_at[task] = self._simulation.now
        if together:
            self._mailbox.append(tasks)
        else:
            self._mailbox.extend((task,) for task in tasks)
        self._begin_next()

    def receive_recall(self, count: int) -> None:
        self._later(self._simulation.latency_s, lambda: self._answer_recall(count))

    def _answer_recall(self, count: int) -> None:
        if self._deaf_until_end:
            self._unanswered.append(count)
            return
        returned: list[int] = []
        while self._mailbox and len(returned) < count:
            for task in self._mailbox.pop():
                returned.append(task)
                self._note_wait(task)
        self._flush()
        self._say(told.TasksGivenBack(self.slot, returned))

    def receive_finish(self) -> None:
        self._later(self._simulation.latency_s, self._finish)

    def _finish(self) -> None:
        self._finishing = True
        self._begin_next()

    # --- work ------------------------------------------------------------------------------------------------

    def _begin_next(self) -> None:
        simulation = self._simulation
        if self.running or not self.ready:
            return
        if not self._mailbox:
            self._flush()
            if self._finishing and simulation.dice.random() >= simulation.faults.cleanup_hangs:
                self._later(simulation.cleanup_s, self._finish_for_good)
            return
        batch = self._take_batch()
        for task in batch:
            self._note_wait(task)
        self.running, self.since, self._began_at = batch, simulation.now, simulation.now
        self._executions = [simulation.begin(task, self.slot) for task in batch]
        self._deaf_until_end = any(execution.deaf for execution in self._executions)
        duration_s = sum(execution.duration_s for execution in self._executions)
        ends = {execution.ends for execution in self._executions}
        limit_s = simulation.settings.task_timeout
        if "crash" in ends:
            self._later(duration_s / 2, lambda: self.die("SIGSEGV"))
        elif "hang" in ends:
            pass
        elif limit_s is not None and duration_s > limit_s and "ignore" not in ends:
            self._later(limit_s + SOFT_UNWIND_S, lambda: self._end(batch, rang=True))
        else:
            self._later(duration_s, lambda: self._end(batch, rang=limit_s is not None and duration_s > limit_s))

    def _take_batch(self) -> tuple[int, ...]:
        batch = self._mailbox.popleft()
        size = self._simulation.settings.batch_size
        if len(batch) == 1:
            while self._mailbox and len(batch) < size and len(self._mailbox[0]) == 1:
                batch += self._mailbox.popleft()
        return batch

    def _end(self, batch: tuple[int, ...], rang: bool) -> None:
        busy_s = self._simulation.now - self._began_at
        each_s = busy_s / len(batch)
        poisoned = self._broken_context or any(execution.ends == "poisoned" for execution in self._executions)
        if rang or poisoned:
            self._broken_context = poisoned
            kind = "poisoned" if poisoned else "timeout"
            if len(batch) > 1:
                self.die(f"{kind} batch")  # for the parent to halve
                return
            self._failures.append(told.TaskFailed(self.slot, batch[0], kind, kind, (), busy_s))
        else:
            for task, execution in zip(batch, self._executions, strict=True):
                if execution.ends in ("error", "transport"):
                    self._failures.append(told.TaskFailed(self.slot, task, execution.ends, "raised", (), each_s))
                else:
                    self._done.append(task)
                    self._done_s += each_s
        simulation = self._simulation
        simulation.end(batch)
        self._deaf_until_end = False
        if simulation.now >= self._flush_due_at:
            self._flush()
        for count in self._unanswered:
            self._answer_recall(count)
        self._unanswered.clear()
        if simulation.faults.dawdles and simulation.dice.random() < simulation.faults.dawdles:
            self._later(simulation.faults.dawdle_s, self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        self.running, self.since = (), None
        self._begin_next()

    def _flush(self) -> None:
        self._flush_due_at = self._simulation.now + FLUSH_S
        if self._done:
            self._say(told.TasksSucceeded(self.slot, self._done, self._done_s))
            self._done, self._done_s = [], 0.0
        for failure in self._failures:
            self._say(failure)
        self._failures.clear()

    def _finish_for_good(self) -> None:
        self.alive = False
        self._say(told.WorkerFinished(self.slot))

    def _note_wait(self, task: int) -> None:
        waited_s = self._simulation.now - max(self._arrived_at[task], self._began_at)
        self._simulation.note_wait(task, waited_s)

    # --- time ------------------------------------------------------------------------------------------------

    def _later(self, delay_s: float, step: Callable[[], None]) -> None:
        """Unless it is dead by then; when frozen, as soon as it thaws."""

        def when_due() -> None:
            if not self.alive:
                return
            if self._frozen_until == inf:
                return
            if self._simulation.now < self._frozen_until:
                self._later(self._frozen_until - self._simulation.now, step)
            else:
                step()

        self._simulation.at(delay_s, when_due)

    def _say(self, what: told.Input) -> None:
        """Words arrive in the order in which they were said, also those of the dead."""
        simulation = self._simulation
        self._last_words_at = max(self._last_words_at, simulation.now + simulation.latency_s)
        simulation.at(self._last_words_at - simulation.now, lambda: simulation.hear(self, what))
