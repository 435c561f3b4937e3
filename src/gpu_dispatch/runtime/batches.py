"""Running tasks in batches, and with I/O beside the model.

    mailbox ─► [preprocess on I/O threads] ─► batch ─► process_batch ─► [postprocess on I/O threads] ─► outbox
                     sources.py            collecting.py  main thread            finishing.py

Only the failing task of a batch fails: a batch that raises or times out is halved until the guilty one stands alone.
(One that kills the process is halved by the parent, which sends the halves back sealed.) A batch that runs out of
memory is halved too, and later batches are smaller.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_dispatch.runtime import oom
from gpu_dispatch.runtime.active import ActiveTasks
from gpu_dispatch.runtime.batch_size import AutoBatchSize, FixedBatchSize
from gpu_dispatch.runtime.collecting import Collector
from gpu_dispatch.runtime.failures import failure_of, render
from gpu_dispatch.runtime.finishing import Finishing
from gpu_dispatch.runtime.mailbox import Mailbox, Sealed
from gpu_dispatch.runtime.outbox import Outbox
from gpu_dispatch.runtime.per_thread import give_each_thread_its_task
from gpu_dispatch.runtime.soft_timeout import SoftTimer
from gpu_dispatch.runtime.sources import DirectSource, PreparedSource, Source, Task
from gpu_dispatch.transport.board import Board
from gpu_dispatch.transport.codec import WillNotPickle
from gpu_dispatch.wire import BatchSizeLearnt, Failure, RuntimePlan, TaskBegan
from gpu_dispatch.worker import BaseWorker

if TYPE_CHECKING:
    from gpu_dispatch.runtime.outbox import Sender


class Fault(NamedTuple):
    """What a call raised, and what that means."""

    error: BaseException
    kind: str  # error, timeout, oom, poisoned
    seconds: float

    @property
    def is_of_size(self) -> bool:
        """A smaller batch might have been fine."""
        return self.kind in ("oom", "timeout")


class WrongResults(Exception):
    """``process_batch`` answered with something else than one result per item."""


class BatchRunner:
    def __init__(
        self,
        worker: BaseWorker,
        mailbox: Mailbox,
        outbox: Outbox,
        board: Board,
        channel: Sender,
        plan: RuntimePlan,
        task_timeout: float | None,
        *,
        is_oom: Callable[[BaseException], bool] | None = None,
        cost: Callable[[Any], float] | None = None,
        budget: float = 0.0,
    ) -> None:
        self._worker = worker
        self._mailbox = mailbox
        self._outbox = outbox
        self._channel = channel
        self._plan = plan
        self._is_oom = oom.judge(is_oom)
        self._active = active = ActiveTasks(board)
        outbox.stop_clocks, outbox.resume_clocks = active.stop_clocks, active.resume_clocks
        self._timer = SoftTimer(task_timeout)
        self._size = _batch_size(plan, task_timeout)
        self._is_poisoned = False
        self._told_size: tuple[int, int | None, int] | None = None
        self._prepared: PreparedSource | None = None
        self._finishing: Finishing | None = None
        threads, size = plan.io_threads, self._size
        prepares, finishes = (callable(getattr(worker, name, None)) for name in ("preprocess", "postprocess"))
        if prepares or finishes:
            give_each_thread_its_task(type(worker))
        if prepares:
            self._prepared = PreparedSource(
                worker, mailbox, active, self._announce, self._fail, threads, lambda: threads + 2 * size.size
            )
        if finishes:
            self._finishing = Finishing(
                worker, active, outbox, self._send, self._fail, threads, lambda: threads + 2 * size.size
            )
        self._source: Source = self._prepared or DirectSource(mailbox, active, self._fail)
        self._batches = Collector(
            self._source,
            mailbox,
            self._size,
            wait_s=plan.batch_wait_s,
            cost=cost,
            budget=budget,
            before_waiting=outbox.flush,
        )

    def run(self) -> bool:
        """Until no more tasks will come. False: the GPU context is broken, and whatever would come next would fail too.
        The batch in which it broke is then left unanswered, and marked as running, for the parent to halve."""
        self._timer.install()
        try:
            while (batch := self._batches.next_batch()) is not None:
                if isinstance(batch, Sealed):
                    self._run_sealed(batch)
                else:
                    if self._prepared is None:
                        self._announce([task_id for task_id, _ in batch])
                    self._run(batch)
                    self._source.done(len(batch))
                del batch  # not kept until the next one is full: it may be large
                self._outbox.flush()
                if self._is_poisoned:
                    return False
        finally:
            self._timer.uninstall()
        if self._prepared is not None:
            self._prepared.close()
        if self._finishing is not None:
            self._finishing.close()
        self._outbox.flush()
        return True

    # --- running -------------------------------------------------------------------------------------------

    def _run_sealed(self, sealed: Sealed) -> None:
        """Suspects of a crash: one at a time where that is possible, and nothing else beside them."""
        if self._finishing is not None:
            self._finishing.drain()
        self._announce([task_id for task_id, _ in sealed.tasks])
        tasks: list[Task] = []
        for task_id, item in sealed.tasks:
            started = self._active.begin((task_id,))
            try:
                if self._prepared is not None:
                    tasks.append((task_id, self._prepared.prepare(task_id, item)))
                else:
                    tasks.append((task_id, self._mailbox.open(item)))
            except BaseException as error:
                self._fail(task_id, started, error)
            self._active.end((task_id,))
        if tasks:
            self._run(tasks)

    def _run(self, tasks: list[Task]) -> None:
        """One call; or, when it fails, its halves, and theirs, until the guilty one is alone."""
        waiting = [tasks]
        too_much = guilty = False
        while waiting:
            part = waiting.pop()
            ids = [task_id for task_id, _ in part]
            fault = self._call(ids, [item for _, item in part])
            if fault is None:
                continue
            if len(part) == 1:
                guilty = guilty or fault.is_of_size
                self._answer_failure(ids[0], fault)
            elif fault.kind != "poisoned":
                middle = (len(part) + 1) // 2
                waiting += (part[middle:], part[:middle])
                too_much = too_much or (part is tasks and fault.is_of_size)
            if fault.kind == "poisoned":
                self._give_up(ids, fault.error)
                return
            self._active.end(ids)
            if fault.kind == "oom":
                oom.forget_frames(fault.error)
                oom.empty_caches()
        # Only the batch as it was made up says something about sizes; and not when one task alone was too much.
        if too_much and not guilty:
            self._size.ran_out(len(tasks))
        self._tell_size()

    def _call(self, ids: list[int], items: list[Any]) -> Fault | None:
        """Run one part and answer for it; or say what went wrong, with its tasks still marked as running."""
        worker, timer = self._worker, self._timer
        started = self._active.begin(ids)
        worker.task_id, worker._batch_ids = ids[0], tuple(ids)
        timer.rang = False
        timer.begin(started)
        try:
            try:
                results = self._process(items)
            finally:
                timer.end()
        except WrongResults as error:
            for task_id in ids:
                self._outbox.fail(task_id, self._seconds(started) / len(ids), Failure("error", f"TypeError: {error}"))
            self._active.end(ids)
            return None
        except BaseException as error:
            return Fault(error, self._kind_of(error), self._seconds(started))
        finally:
            worker.task_id, worker._batch_ids = None, ()
        seconds = self._seconds(started)
        if timer.rang:
            return Fault(TimeoutError("the call went on after its time was up"), "timeout", seconds)
        self._size.ran(len(ids), seconds)
        for task_id, value in zip(ids, results, strict=True):
            self._answer(task_id, seconds / len(ids), value)
        self._active.end(ids)
        return None

    def _process(self, items: list[Any]) -> Sequence[Any]:
        if self._plan.batch_size is None:
            return [self._worker.process(item) for item in items]
        results: Any = self._worker.process_batch(items)  # type: ignore[attr-defined]
        if results is None or isinstance(results, str | bytes | bytearray | Mapping | set | frozenset):
            raise WrongResults(
                f"process_batch returned {_kind_in_words(results)}; it must return a list (or a tuple, an array, a "
                "generator) with one result per item, in the order of the items"
            )
        listed: Sequence[Any] = results if isinstance(results, list | tuple) else list(results)
        if len(listed) != len(items):
            raise WrongResults(
                f"process_batch returned {len(listed)} results for {len(items)} items; it must return one per item"
            )
        return listed

    def _kind_of(self, error: BaseException) -> str:
        if self._timer.rang:
            return "timeout"
        if oom.is_poisoned(error):
            return "poisoned"
        return "oom" if self._is_oom(error) else "error"

    @staticmethod
    def _seconds(started: float) -> float:
        return time.monotonic() - started

    # --- answering -----------------------------------------------------------------------------------------

    def _answer(self, task_id: int, busy_s: float, value: Any) -> None:
        if isinstance(value, BaseException):
            self._outbox.fail(task_id, busy_s, failure_of(value, self._kind_of(value)))
        elif self._finishing is not None:
            self._finishing.put(task_id, busy_s, value)
        else:
            self._send(task_id, busy_s, value)

    def _send(self, task_id: int, busy_s: float, value: Any) -> None:
        try:
            self._outbox.succeed(task_id, busy_s, value)
        except WillNotPickle as error:
            self._outbox.fail(task_id, busy_s, Failure("transport", f"the result cannot be sent back. {error}"))

    def _fail(self, task_id: int, started: float, error: BaseException) -> None:
        """A task failed outside of the model: while it was opened, prepared or finished. From any thread."""
        kind = "poisoned" if oom.is_poisoned(error) else "oom" if self._is_oom(error) else "error"
        self._outbox.fail(task_id, self._seconds(started), failure_of(error, kind))
        self._outbox.flush()
        if kind == "poisoned":
            self._is_poisoned = True

    def _answer_failure(self, task_id: int, fault: Fault) -> None:
        failure = failure_of(fault.error, fault.kind)
        if fault.kind == "timeout":
            failure = Failure("timeout", failure.text, failure.type_names)
        elif fault.kind == "oom":
            text = f"{failure.text.rstrip()}\nThis task alone does not fit into the memory that is free."
            failure = Failure("oom", text, failure.type_names, failure.exception)
        self._timer.rang = False
        self._outbox.fail(task_id, fault.seconds, failure)

    def _give_up(self, ids: list[int], error: BaseException) -> None:
        """Nothing works in this process any more. One task was answered for; several are for the parent to halve."""
        self._is_poisoned = True
        if len(ids) > 1:
            print(render(error), file=sys.stderr, flush=True)
        self._active.blame(ids if len(ids) > 1 else ())

    def _announce(self, ids: list[int]) -> None:
        if self._plan.announce_starts:
            for task_id in ids:
                self._channel.send(TaskBegan(task_id))

    def _tell_size(self) -> None:
        if self._plan.batch_size is None:
            return
        now = (*self._size.learnt, self._size.size + (self._plan.io_threads if self._prepared is not None else 0))
        if now != self._told_size:
            self._told_size = now
            self._channel.send(BatchSizeLearnt(*now))


def _batch_size(plan: RuntimePlan, task_timeout: float | None) -> AutoBatchSize | FixedBatchSize:
    size = plan.batch_size or 1
    if not plan.batch_auto:
        return FixedBatchSize(size)
    # Half of the limit: a call that usually takes all of it would time out whenever the machine is busy.
    return AutoBatchSize(size, plan.batch_ceiling, None if task_timeout is None else task_timeout / 2)


def _kind_in_words(results: object) -> str:
    return "None" if results is None else f"a {type(results).__name__}"
