"""Who reads what the parent sends: the main thread, when it has nothing else to do; a thread beside it, when it has.

A thread that reads for the other costs two switches per frame, which with tiny tasks is more than the tasks. But while
user code runs, somebody must hear that tasks are wanted back, that results are to be sent now, that the parent is gone.

    main thread    runs tasks ─► mailbox empty ─► reads by itself ─► runs tasks …
    helper         looks every few ms ─► main is still in the same task ─► reads ─► … ─► main has mail again ─► looks …

Only who holds the lock ``_role`` reads. Each of the two says what it wants before it looks whether the other has the
role, so they cannot both walk away, each believing that the other reads.
"""

from __future__ import annotations

import threading
import time
from _thread import allocate_lock

from gpu_dispatch.runtime import lifeline
from gpu_dispatch.wire import Finish, GivenBack, RecallTasks, RunTasks

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gpu_dispatch.runtime.mailbox import Mailbox
    from gpu_dispatch.runtime.outbox import Outbox
    from gpu_dispatch.transport.worker_channel import WorkerChannel

LOOK_S = 0.002
"""How often the helper looks. Tasks longer than this make it read; shorter ones leave that to the main thread."""
LOOKS_UNTIL_ASLEEP = 5
"""After so many looks at a main thread that waits for mail, the helper sleeps until there is some."""


class Reader:
    def __init__(
        self, channel: WorkerChannel, mailbox: Mailbox, outbox: Outbox, running: Callable[[], int | None]
    ) -> None:
        """``running``: which task the main thread is in."""
        self._channel = channel
        self._mailbox = mailbox
        self._outbox = outbox
        self._running = running
        self._is_open = True
        self._role = allocate_lock()
        self._main_waits = False
        self._asleep: list[None] = []  # holds something when the helper sleeps: who takes it out is to wake the helper
        self._alarm = allocate_lock()  # held, but for the moment in which it wakes the helper
        self._alarm.acquire()

    def start(self, *, beside_main: bool) -> None:
        """``beside_main``: the main thread takes part, by ``read_until_mail``."""
        target = self._help if beside_main else self._read_for_ever
        threading.Thread(target=target, name="gpu-dispatch-mailbox", daemon=True).start()

    def handle(self, mail: list[Any]) -> None:
        for message in mail:
            if isinstance(message, RunTasks):
                self._mailbox.deliver(message)
            elif isinstance(message, RecallTasks):
                returned = tuple(self._mailbox.give_back(message.count))
                self._outbox.flush_beside()
                self._channel.send(GivenBack(returned))
            elif isinstance(message, Finish):
                self._mailbox.finish()

    def _read_once(self) -> None:
        received = self._channel.receive()
        if received is None:
            self._is_open = False
            lifeline.end_group()
        else:
            self.handle(received)

    # --- the main thread ---------------------------------------------------------------------------------------

    def read_until_mail(self) -> None:
        """Until there are tasks in the mailbox, or no more will come."""
        mailbox = self._mailbox
        self._main_waits = True
        if self._role.acquire(False):
            while self._is_open and not mailbox.has_news:
                self._read_once()
            self._role.release()
            if self._asleep and self._takes_out():
                self._alarm.release()
        else:
            mailbox.wait()
        self._main_waits = False

    # --- the helper --------------------------------------------------------------------------------------------

    def _read_for_ever(self) -> None:
        while self._is_open:
            self._read_once()

    def _help(self) -> None:
        before: int | None = None
        idle_looks = 0
        while self._is_open:
            time.sleep(LOOK_S)
            now = self._running()
            if not self._role.acquire(False):
                idle_looks += 1
                if idle_looks >= LOOKS_UNTIL_ASLEEP:
                    self._sleep()
                    idle_looks = 0
                continue
            idle_looks = 0
            is_in_the_same_task = now is not None and now == before
            before = now
            self._read_beside(patiently=is_in_the_same_task or self._mailbox.finishing)

    def _read_beside(self, *, patiently: bool) -> None:
        """With the role in hand: what is there; or whatever comes, if the main thread will not look for a while."""
        while True:
            if patiently or self._channel.has_mail():
                self._read_once()
            self._role.release()
            patiently = self._main_waits and not self._mailbox.has_news  # it saw the role taken, and relies on us
            if not (patiently and self._is_open and self._role.acquire(False)):
                return

    def _sleep(self) -> None:
        """Until the main thread has got mail."""
        self._asleep.append(None)
        if self._role.acquire(False):  # it got some just now, perhaps before it could see that we sleep
            self._role.release()
            if self._takes_out():
                return
        self._alarm.acquire()

    def _takes_out(self) -> bool:
        try:
            self._asleep.pop()
            return True
        except IndexError:
            return False
