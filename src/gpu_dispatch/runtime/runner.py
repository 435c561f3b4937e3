"""Running tasks one at a time in the worker's main thread."""

from __future__ import annotations

import time
from struct import error as struct_error

from gpu_dispatch.errors import SoftTimeout
from gpu_dispatch.runtime.mailbox import Mailbox
from gpu_dispatch.runtime.outbox import FLUSH_S, Outbox
from gpu_dispatch.runtime.soft_timeout import NEVER, SoftTimer
from gpu_dispatch.transport.board import END, SINCE, TASK
from gpu_dispatch.transport.codec import Large, WillNotPickle
from gpu_dispatch.transport.pickling import loads
from gpu_dispatch.transport.rows import ROW_BYTES
from gpu_dispatch.wire import Failure, TaskBegan

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gpu_dispatch.transport.board import Board
    from gpu_dispatch.worker import BaseWorker

ANNOUNCE_AFTER_S = 0.001
"""Tasks that start sooner than this after the last message are told as started together with their results."""
LONG_S = 0.020
"""After a task of this length, what sending its result costs does not show. So it is sent at once, and not by a thread
that may have to wait until the next task lets go of the interpreter's lock."""


class TaskRunner:
    def __init__(
        self,
        worker: BaseWorker,
        mailbox: Mailbox,
        outbox: Outbox,
        board: Board,
        task_timeout: float | None,
        wait_for_mail: Callable[[], None],
        announce: Callable[[TaskBegan], None] | None = None,
        is_oom: Callable[[BaseException], bool] | None = None,
    ) -> None:
        self._worker = worker
        self._mailbox = mailbox
        self._outbox = outbox
        self._board = board
        self._timer = SoftTimer(task_timeout)
        self._wait = wait_for_mail
        self._announce = announce
        self._is_oom = is_oom

    def run(self) -> bool:
        """Run tasks until the parent says that no more will come. False: the GPU context is broken, and whatever
        would come next would fail too.

        Hot: names are looked up once, the timer's fields are set and plain numbers put on the board here rather than
        through calls, and the clock is read once per task: the end of one is the start of the next. Where something
        between the two may take a while (pickling a result, writing, waiting for a parent that does not read), it is
        read again: that is no task's time.
        """
        worker, outbox, board, timer, monotonic = self._worker, self._outbox, self._board, self._timer, time.monotonic
        process, succeed, flush_soon = worker.process, outbox.succeed, outbox.flush_soon
        start, words, instants, rows = board.start, board.words, board.instants, board.rows
        take: Callable[[], Any] = self._mailbox.take  # never sealed: see Mailbox
        unpack = self._mailbox.open
        limit_s, announce = timer.limit_s, self._announce
        is_sound, was_resting = True, True
        timer.install()
        now = monotonic()
        end, plain, pack = board.cursor()  # to be read again after each call to the outbox
        try:
            while True:
                try:
                    task_id, item = take()
                except IndexError:
                    if not self._wait_for_mail():
                        break
                    now, was_resting = monotonic(), True
                    end, plain, pack = board.cursor()
                    continue
                # From here on a death is charged to this task, and its time counts.
                if was_resting:
                    start(task_id, now)
                    was_resting = False
                else:
                    instants[SINCE] = now
                    words[TASK] = task_id
                worker.task_id = task_id
                if announce is not None and now >= outbox.quiet_since + ANNOUNCE_AFTER_S:
                    outbox.flush()
                    end, plain, pack = board.cursor()
                    announce(TaskBegan(task_id))
                    now = monotonic()
                    start(task_id, now)
                started = now
                try:
                    try:
                        if limit_s is not None:
                            timer.deadline = deadline = started + limit_s
                            if timer.ringing_at > deadline:
                                timer.ring_by(deadline)
                        # Opened inside its own task: one that will not open is that task's failure. And into no name
                        # of ours: what it holds, in the arena or on the GPU, is free when ``process`` is done with it.
                        kind = type(item)
                        if kind is bytes:
                            value = process(loads(item))
                        elif kind is Large:
                            value = process(unpack(item))
                        else:
                            value = process(item)
                    finally:
                        timer.deadline = NEVER  # an alarm that rings just before this still counts as the task's own
                    now = monotonic()
                    if timer.rang:  # whatever user code made of it: its time was up
                        raise SoftTimeout("the task went on after its time was up")
                    row = end
                    if type(value) is plain:
                        try:
                            pack(rows, row, task_id, now - started, value)
                            words[END] = end = row + ROW_BYTES  # last: a row counts only when it is whole
                        except struct_error:  # all rows are taken, or the int has more than 64 bits
                            pass
                    if row == end:  # it was not stored
                        succeed(task_id, now - started, value)
                        now = monotonic()
                        end, plain, pack = board.cursor()
                except BaseException as error:  # SystemExit and KeyboardInterrupt too: they are this task's failure
                    now = monotonic()
                    failure = self._failure(error)
                    outbox.fail(task_id, now - started, failure)
                    end, plain, pack = board.cursor()
                    timer.rang = False
                    if failure.kind == "poisoned":
                        is_sound = False
                        break
                    now = monotonic()  # a traceback takes a while
                if now >= outbox.quiet_since + FLUSH_S:
                    if now - started < LONG_S:
                        flush_soon()
                    else:
                        outbox.flush()
                    now = monotonic()
                    end, plain, pack = board.cursor()
        finally:
            timer.uninstall()
        # Not in the finally: what gets out of the loop is not user code's, and ends this process. Its task must stay
        # marked as running then, to be charged; otherwise it would be given to another worker, and run again.
        outbox.flush()
        board.rest()
        return is_sound

    def _wait_for_mail(self) -> bool:
        """Whether there will be any."""
        self._worker.task_id = None
        self._outbox.flush()
        self._board.rest()
        self._wait()
        return not self._mailbox.finishing

    def _failure(self, error: BaseException) -> Failure:
        if isinstance(error, WillNotPickle):
            return Failure("transport", f"the result cannot be sent back. {error}")
        try:
            from gpu_dispatch.runtime.failures import failure_of  # here: most workers never need it

            failure = failure_of(error, self._kind_of(error))
        except BaseException as obstacle:  # no descriptor left to import with, no memory left for a traceback
            failure = Failure("error", f"{_in_a_line(error)} (there is no traceback because of {_in_a_line(obstacle)})")
        return Failure("timeout", failure.text, failure.type_names) if self._timer.rang else failure

    def _kind_of(self, error: BaseException) -> str:
        from gpu_dispatch.runtime import oom

        if oom.is_poisoned(error):
            return "poisoned"
        if oom.judge(self._is_oom)(error):
            oom.empty_caches()  # the next task should find the memory that this one took
            return "oom"
        return "error"


def _in_a_line(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # its str() raises
        return type(error).__name__
