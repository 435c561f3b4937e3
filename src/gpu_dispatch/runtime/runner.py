"""Running tasks one at a time in the worker's main thread."""

from __future__ import annotations

import time
from typing import Any

from gpu_dispatch.protocol import Failure
from gpu_dispatch.runtime.failures import failure_of
from gpu_dispatch.runtime.mailbox import Encoded, Mailbox, Sealed
from gpu_dispatch.runtime.outbox import Outbox
from gpu_dispatch.runtime.soft_timeout import SoftTimer
from gpu_dispatch.transport.board import Board
from gpu_dispatch.transport.codec import WillNotPickle
from gpu_dispatch.worker import BaseWorker


class TaskRunner:
    def __init__(
        self, worker: BaseWorker, mailbox: Mailbox, outbox: Outbox, board: Board, task_timeout: float | None
    ) -> None:
        self._worker = worker
        self._mailbox = mailbox
        self._outbox = outbox
        self._board = board
        self._timer = SoftTimer(task_timeout)

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
            failure = failure_of(error)
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
        if ended >= outbox.flush_due_at:
            outbox.flush()
