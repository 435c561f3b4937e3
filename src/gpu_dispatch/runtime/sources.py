"""Where the batch runner gets its tasks: straight from the mailbox, or prepared by I/O threads.

Preparing (the worker's ``preprocess``) runs ahead of the model, bounded: while one batch is on the GPU, the next is
being loaded and decoded. A task that fails there is answered there.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from gpu_dispatch.runtime.active import ActiveTasks
from gpu_dispatch.runtime.mailbox import Encoded, Mailbox, Sealed

Task = tuple[int, Any]
Fail = Callable[[int, float, BaseException], None]


class Source(Protocol):
    def take(self) -> Task | Sealed | None:
        """The next task, or ``None`` when there is none right now."""
        ...

    def done(self, count: int) -> None:
        """So many of the tasks taken are out of the way: there is room for others ahead."""
        ...

    def wait(self, timeout: float | None) -> None:
        """Until there may be one, or none will come any more."""
        ...


class DirectSource:
    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def take(self) -> Task | Sealed | None:
        try:
            return self._mailbox.take()
        except IndexError:
            return None

    def done(self, count: int) -> None:
        pass

    def wait(self, timeout: float | None) -> None:
        self._mailbox.wait(timeout)


class PreparedSource:
    def __init__(
        self,
        preprocess: Callable[[Any], Any],
        mailbox: Mailbox,
        active: ActiveTasks,
        fail: Fail,
        threads: int,
        ahead: int,
    ) -> None:
        self._preprocess = preprocess
        self._mailbox = mailbox
        self._active = active
        self._fail = fail
        self._ready: deque[Task] = deque()
        self._room = threading.Semaphore(ahead)
        for number in range(threads):
            threading.Thread(target=self._prepare, name=f"gpu-dispatch-io-{number}", daemon=True).start()

    def take(self) -> Task | Sealed | None:
        try:
            return self._ready.popleft()
        except IndexError:
            return self._mailbox.take_alone()

    def done(self, count: int) -> None:
        for _ in range(count):
            self._room.release()
            self._mailbox.put_down()

    def wait(self, timeout: float | None) -> None:
        self._mailbox.wait_until(lambda: bool(self._ready) or self._mailbox.sealed_is_next, timeout)

    def _prepare(self) -> None:
        while True:
            self._room.acquire()
            task = self._mailbox.take_in_hand()
            if task is None:
                return
            task_id, item = task
            started = self._active.begin((task_id,))
            try:
                if type(item) is Encoded:
                    item = item.open()
                prepared = self._preprocess(item)
            except BaseException as error:
                self._fail(task_id, started, error)
                self._active.end((task_id,))
                self.done(1)
                continue
            self._active.end((task_id,))
            self._ready.append((task_id, prepared))
            self._mailbox.notify()
