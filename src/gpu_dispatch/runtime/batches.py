"""Running tasks in batches, and with I/O beside the model.

    mailbox ─► [preprocess on I/O threads] ─► batch ─► process_batch ─► [postprocess on I/O threads] ─► outbox
                                               main thread

Only the failing task of a batch fails: a batch that raises or times out is halved until the guilty one stands alone.
(One that kills the process is halved by the parent, which sends the halves back sealed.) A batch that runs out of
memory is halved too, and later batches are smaller.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpu_dispatch.runtime import oom
from gpu_dispatch.runtime.active import ActiveTasks
from gpu_dispatch.runtime.batch_size import AutoBatchSize, FixedBatchSize
from gpu_dispatch.runtime.failures import failure_of, render
from gpu_dispatch.runtime.mailbox import Encoded, Mailbox, Sealed
from gpu_dispatch.runtime.outbox import Outbox
from gpu_dispatch.runtime.soft_timeout import SoftTimer
from gpu_dispatch.runtime.sources import DirectSource, PreparedSource, Source, Task
from gpu_dispatch.transport.board import Board
from gpu_dispatch.transport.codec import WillNotPickle
from gpu_dispatch.wire import BatchSizeLearnt, Failure, RuntimePlan, TaskBegan
from gpu_dispatch.worker import BaseWorker

if TYPE_CHECKING:
    from gpu_dispatch.runtime.outbox import Sender

POISONED_EXIT = 70
"""Exit code of a worker whose GPU context broke during a batch: the parent then finds the guilty task."""


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
        self._is_oom = is_oom or oom.is_oom
        self._cost, self._budget = cost, budget
        self._held_over: Task | None = None  # taken, but too much for the budget of the last batch
        self._active = ActiveTasks(board)
        outbox.stop_clocks, outbox.resume_clocks = self._active.stop_clocks, self._active.resume_clocks
        self._timer = SoftTimer(task_timeout)
        size = plan.batch_size or 1
        self._size = AutoBatchSize(size, plan.batch_ceiling) if plan.batch_auto else FixedBatchSize(size)
        self._told_size: tuple[int, int | None] | None = None
        self._source: Source = DirectSource(mailbox)
        preprocess = getattr(worker, "preprocess", None)
        if preprocess is not None:
            ahead = plan.io_threads + 2 * (256 if plan.batch_auto else size)
            self._source = PreparedSource(preprocess, mailbox, self._active, self._fail, plan.io_threads, ahead)
        postprocess = getattr(worker, "postprocess", None)
        self._finishing = None if postprocess is None else _Finishing(postprocess, self, plan.io_threads)

    def run(self) -> None:
        self._timer.install()
        try:
            while True:
                batch = self._collect()
                if batch is None:
                    return
                if isinstance(batch, Sealed):
                    self._run_sealed(batch)
                else:
                    self._run_batch(batch)
                self._outbox.flush()
        finally:
            self._timer.uninstall()
            if self._finishing is not None:
                self._finishing.close()
            self._outbox.flush()

    # --- collecting ----------------------------------------------------------------------------------------

    def _collect(self) -> list[Task] | Sealed | None:
        """The next batch: what is there, up to the size and the budget; waits at most ``batch_wait`` for more."""
        first = self._first()
        if first is None or isinstance(first, Sealed):
            return first
        batch, spent = [first], self._price(first)
        wait_until = time.monotonic() + self._plan.batch_wait_s
        while len(batch) < self._size.size and self._held_over is None:
            task = self._source.take()
            if task is None:
                left = wait_until - time.monotonic()
                if left <= 0 or self._mailbox.finishing:
                    break
                self._source.wait(left)
                continue
            if isinstance(task, Sealed):
                self._run_batch(batch)
                return task
            spent += self._price(task)
            if self._cost is not None and spent > self._budget:
                self._held_over = task
                break
            batch.append(task)
        return batch

    def _first(self) -> Task | Sealed | None:
        if self._held_over is not None:
            task, self._held_over = self._held_over, None
            return task
        while True:
            taken = self._source.take()
            if taken is not None:
                return taken
            if self._mailbox.finishing:
                return None
            self._outbox.flush()
            self._source.wait(None)

    def _price(self, task: Task) -> float:
        if self._cost is None:
            return 0.0
        item = task[1]
        try:
            return float(self._cost(item.open() if type(item) is Encoded else item))
        except Exception:  # a cost that cannot be told: alone in its batch, where process_batch will say why
            return self._budget

    # --- running -------------------------------------------------------------------------------------------

    def _run_sealed(self, sealed: Sealed) -> None:
        """Suspects of a crash: one at a time where that is possible, and nothing else beside them."""
        preprocess = getattr(self._worker, "preprocess", None)
        tasks: list[Task] = []
        for task_id, item in sealed.tasks:
            started = self._active.begin((task_id,))
            try:
                opened = item.open() if type(item) is Encoded else item
                tasks.append((task_id, preprocess(opened) if preprocess is not None else opened))
            except BaseException as error:
                self._fail(task_id, started, error)
            self._active.end((task_id,))
        if tasks:
            self._run(tasks)

    def _run_batch(self, batch: list[Task]) -> None:
        tasks: list[Task] = []
        for task_id, item in batch:
            if type(item) is Encoded:
                started = self._active.begin((task_id,))
                try:
                    item = item.open()
                except BaseException as error:
                    self._fail(task_id, started, error)
                    self._active.end((task_id,))
                    continue
            tasks.append((task_id, item))
        if tasks:
            self._run(tasks)
        self._source.done(len(batch))

    def _run(self, tasks: list[Task]) -> None:
        """One call; or, when it fails, its halves, and theirs, until the guilty one is alone."""
        waiting = [tasks]
        while waiting:
            part = waiting.pop()
            error = self._call(part)
            if error is None:
                continue
            ids = [task_id for task_id, _ in part]
            started = time.monotonic()
            if len(part) > 1 and not self._timer.rang and oom.is_poisoned(error):
                self._die_poisoned(error)
            ran_out = not self._timer.rang and self._is_oom(error)
            if ran_out:
                self._size.ran_out(len(part))
                error.__traceback__ = error.__traceback__ if len(part) == 1 else None  # it holds the batch's tensors
                oom.empty_caches()
            if len(part) > 1:
                middle = (len(part) + 1) // 2
                waiting += (part[middle:], part[:middle])
                self._timer.rang = False
            else:
                self._answer_failure(ids[0], started, error, ran_out=ran_out)
            self._active.end(ids)
        self._tell_size()

    def _call(self, part: list[Task]) -> BaseException | None:
        """Run one part and answer for it; or return what it raised, with its tasks still marked as running."""
        worker, timer = self._worker, self._timer
        ids = [task_id for task_id, _ in part]
        items = [item for _, item in part]
        if self._plan.announce_starts:
            for task_id in ids:
                self._channel.send(TaskBegan(task_id))
        started = self._active.begin(ids)
        worker.task_id, worker._batch_ids = ids[0], tuple(ids)
        timer.rang = False
        timer.begin(started)
        try:
            try:
                results = self._process(items)
            finally:
                timer.end()
        except BaseException as error:
            return error
        finally:
            worker.task_id, worker._batch_ids = None, ()
        seconds = time.monotonic() - started
        if timer.rang:
            return TimeoutError("the batch went on after its time was up")
        if len(results) != len(part):
            text = f"process_batch returned {len(results)} results for {len(part)} items; it must return one per item"
            for task_id in ids:
                self._outbox.fail(task_id, seconds / len(part), Failure("error", f"ValueError: {text}"))
        else:
            self._size.ran(len(part), seconds)
            for task_id, value in zip(ids, results, strict=True):
                self._answer(task_id, seconds / len(part), value)
        self._active.end(ids)
        return None

    def _process(self, items: list[Any]) -> Sequence[Any]:
        if self._plan.batch_size is None:
            return [self._worker.process(item) for item in items]
        results = self._worker.process_batch(items)  # type: ignore[attr-defined]
        return results if isinstance(results, list | tuple) else list(results)

    # --- answering -----------------------------------------------------------------------------------------

    def _answer(self, task_id: int, busy_s: float, value: Any) -> None:
        if isinstance(value, BaseException):
            self._outbox.fail(task_id, busy_s, failure_of(value))
        elif self._finishing is not None:
            self._finishing.put(task_id, busy_s, value)
        else:
            self.send(task_id, busy_s, value)

    def send(self, task_id: int, busy_s: float, value: Any) -> None:
        try:
            self._outbox.succeed(task_id, busy_s, value)
        except WillNotPickle as error:
            self._outbox.fail(task_id, busy_s, Failure("transport", f"the result cannot be sent back. {error}"))
        except Exception as error:
            self._outbox.fail(task_id, busy_s, failure_of(error, "transport"))

    def _fail(self, task_id: int, started: float, error: BaseException) -> None:
        self._outbox.fail(task_id, time.monotonic() - started, failure_of(error))
        self._outbox.flush()

    def _answer_failure(self, task_id: int, started: float, error: BaseException, *, ran_out: bool) -> None:
        busy_s = time.monotonic() - started
        failure = failure_of(error)
        if self._timer.rang:
            self._timer.rang = False
            failure = Failure("timeout", failure.text, failure.type_names)
        elif ran_out:
            text = f"{failure.text}\nThis task alone does not fit into the device's memory."
            failure = Failure("oom", text, failure.type_names, failure.exception)
        elif oom.is_poisoned(error):
            failure = Failure("poisoned", failure.text, failure.type_names)
        self._outbox.fail(task_id, busy_s, failure)

    def _die_poisoned(self, error: BaseException) -> None:
        """Nothing works in this process any more. Leave the batch unanswered, for the parent to halve."""
        print(render(error), file=sys.stderr, flush=True)
        self._outbox.flush()
        os._exit(POISONED_EXIT)

    def _tell_size(self) -> None:
        if self._plan.batch_size is None:
            return
        now = (self._size.size, self._size.ceiling)
        if now != self._told_size:
            self._told_size = now
            self._channel.send(BatchSizeLearnt(*now))

    # --- used by the finishing threads -----------------------------------------------------------------------

    @property
    def active(self) -> ActiveTasks:
        return self._active

    @property
    def outbox(self) -> Outbox:
        return self._outbox


class _Finishing:
    """``postprocess`` on I/O threads, behind the model. Bounded: a slow disk slows the model down, not the memory."""

    def __init__(self, postprocess: Callable[[Any], Any], runner: BatchRunner, threads: int) -> None:
        self._postprocess = postprocess
        self._runner = runner
        self._queue: queue.Queue[tuple[int, float, Any] | None] = queue.Queue(maxsize=max(64, 4 * threads))
        self._threads = [
            threading.Thread(target=self._work, name=f"gpu-dispatch-post-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, task_id: int, busy_s: float, value: Any) -> None:
        self._queue.put((task_id, busy_s, value))

    def close(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        runner = self._runner
        while True:
            job = self._queue.get()
            if job is None:
                return
            task_id, busy_s, value = job
            runner.active.begin((task_id,))
            try:
                runner.send(task_id, busy_s, self._postprocess(value))
            except BaseException as error:
                runner.outbox.fail(task_id, busy_s, failure_of(error))
            runner.active.end((task_id,))
            if self._queue.empty():
                runner.outbox.flush()
