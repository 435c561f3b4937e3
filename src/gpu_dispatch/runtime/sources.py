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
from gpu_dispatch.runtime.mailbox import Mailbox, Sealed
from gpu_dispatch.transport.codec import PACKED
from gpu_dispatch.worker import BaseWorker

Task = tuple[int, Any]
Fail = Callable[[int, float, BaseException], None]


class Source(Protocol):
    def take(self) -> Task | Sealed | None:
        """The next task with its item opened, or ``None`` when there is none right now."""
        ...

    def done(self, count: int) -> None:
        """So many of the tasks taken are out of the way: there is room for others ahead."""
        ...

    def wait(self, timeout: float | None) -> None:
        """Until there may be one, or none will come any more."""
        ...


class DirectSource:
    def __init__(self, mailbox: Mailbox, active: ActiveTasks, fail: Fail) -> None:
        self._mailbox = mailbox
        self._active = active
        self._fail = fail

    def take(self) -> Task | Sealed | None:
        while True:
            try:
                task = self._mailbox.take()
            except IndexError:
                return None
            if isinstance(task, Sealed) or type(task[1]) not in PACKED:
                return task
            task_id, packed = task
            started = self._active.begin((task_id,))
            try:
                return task_id, self._mailbox.open(packed)
            except BaseException as error:  # a bad item is the failure of its own task
                self._fail(task_id, started, error)
            finally:
                self._active.end((task_id,))

    def done(self, count: int) -> None:
        pass

    def wait(self, timeout: float | None) -> None:
        self._mailbox.wait(timeout)


class PreparedSource:
    """``ahead``: how many tasks may be in hand at most, from the beginning of their ``preprocess`` to the end of
    their batch."""

    def __init__(
        self,
        worker: BaseWorker,
        mailbox: Mailbox,
        active: ActiveTasks,
        announce: Callable[[list[int]], None],
        fail: Fail,
        threads: int,
        ahead: Callable[[], int],
    ) -> None:
        self._worker = worker
        self._preprocess: Callable[[Any], Any] = worker.preprocess  # type: ignore[attr-defined]
        self._mailbox = mailbox
        self._active = active
        self._announce = announce
        self._fail = fail
        self._ahead = ahead
        self._ready: deque[Task] = deque()
        self._threads = [
            threading.Thread(target=self._prepare, name=f"gpu-dispatch-io-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def take(self) -> Task | Sealed | None:
        try:
            return self._ready.popleft()
        except IndexError:
            return self._mailbox.take_alone()

    def done(self, count: int) -> None:
        self._mailbox.put_down(count)

    def wait(self, timeout: float | None) -> None:
        self._mailbox.wait_until(lambda: bool(self._ready) or self._mailbox.sealed_is_next, timeout)

    def close(self) -> None:
        """When the mailbox is exhausted."""
        for thread in self._threads:
            thread.join()

    def prepare(self, task_id: int, item: Any) -> Any:
        """In the calling thread."""
        self._worker.task_id = task_id
        try:
            return self._preprocess(self._mailbox.open(item))
        finally:
            self._worker.task_id = None

    def _prepare(self) -> None:
        while True:
            task = self._mailbox.take_in_hand(self._ahead)
            if task is None:
                return
            task_id, item = task
            self._announce([task_id])
            started = self._active.begin((task_id,))
            try:
                prepared = self.prepare(task_id, item)
            except BaseException as error:
                self._fail(task_id, started, error)
                self._active.end((task_id,))
                self._mailbox.put_down(1)
                continue
            self._active.end((task_id,))
            self._ready.append((task_id, prepared))
            self._mailbox.notify()
            del task, item, prepared  # not kept until the next one comes: it may be large
