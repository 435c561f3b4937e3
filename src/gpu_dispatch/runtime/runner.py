"""Running tasks one at a time in the worker's main thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gpu_dispatch.protocol import Failure, TaskStarted
from gpu_dispatch.runtime import oom
from gpu_dispatch.runtime.failures import failure_of
from gpu_dispatch.runtime.mailbox import Encoded, Mailbox, Sealed
from gpu_dispatch.runtime.outbox import FLUSH_S, Outbox
from gpu_dispatch.runtime.soft_timeout import SoftTimer
from gpu_dispatch.transport.board import Board
from gpu_dispatch.transport.codec import WillNotPickle
from gpu_dispatch.worker import BaseWorker

ANNOUNCE_AFTER_S = 0.001
"""Tasks that start sooner than this after the last message are told as started together with their results."""


class TaskRunner:
    def __init__(
        self,
        worker: BaseWorker,
        mailbox: Mailbox,
        outbox: Outbox,
        board: Board,
        task_timeout: float | None,
        announce: Callable[[TaskStarted], None] | None = None,
        is_oom: Callable[[BaseException], bool] = oom.is_oom,
    ) -> None:
        self._worker = worker
        self._mailbox = mailbox
        self._outbox = outbox
        self._board = board
        self._timer = SoftTimer(task_timeout)
        self._announce = announce
        self._is_oom = is_oom

    def run(self) -> None:
        """Run tasks until the parent says that no more will come."""
        mailbox, take = self._mailbox, self._mailbox.take
        self._timer.install()
        try:
            while True:
                try:
                    task = take()
                except IndexError:
                    if mailbox.finishing:
                        return
                    self._outbox.flush()
                    self._board.rest()
                    mailbox.wait()
                    continue
                if type(task) is Sealed:
                    for task_id, item in task.tasks:
                        self._run_one(task_id, item)
                else:
                    self._run_one(*task)
        finally:
            self._timer.uninstall()
            self._outbox.flush()
            self._board.rest()

    def _run_one(self, task_id: int, item: Any) -> None:
        """Hot. From ``board.start`` on, a death is charged to this task; its time counts from here too."""
        worker, timer, outbox = self._worker, self._timer, self._outbox
        started = time.monotonic()
        self._board.start(task_id, started)
        worker.task_id = task_id
        if self._announce is not None and started >= outbox.quiet_since + ANNOUNCE_AFTER_S:
            outbox.flush()
            self._announce(TaskStarted(task_id, worker.worker_id))
        timer.begin(started)
        failure: Failure | None = None
        value: Any = None
        try:
            try:
                if type(item) is Encoded:
                    item = item.open()
                value = worker.process(item)
            finally:
                timer.end()  # an alarm that rings just before this line still counts as the task's own
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: they are this task's failure
            failure = failure_of(error, self._kind_of(error))
        worker.task_id = None
        ended = time.monotonic()
        if timer.rang:  # whatever user code made of it: its time was up
            timer.rang = False
            text = failure.text if failure else "the task went on after its time was up"
            failure = Failure("timeout", text, failure.type_names if failure else ())
        if failure is None:
            try:
                outbox.succeed(task_id, ended - started, value)
            except WillNotPickle as error:
                failure = Failure("transport", f"the result cannot be sent back. {error}")
            except Exception as error:
                failure = failure_of(error, "transport")
        if failure is not None:
            outbox.fail(task_id, ended - started, failure)
        if ended >= outbox.quiet_since + FLUSH_S:
            outbox.flush()

    def _kind_of(self, error: BaseException) -> str:
        if oom.is_poisoned(error):
            return "poisoned"
        if self._is_oom(error):
            oom.empty_caches()  # the next task should find the memory that this one took
            return "oom"
        return "error"
