"""Tasks that have arrived in the worker and not begun.

The reader thread puts them in and, on recall, takes the youngest out again; the main thread takes the oldest.
``deque`` makes both ends safe without a lock: a task is taken by exactly one of the two.
"""

from __future__ import annotations

import threading
from collections import deque

from gpu_dispatch.transport.codec import PACKED, discard, unpack
from gpu_dispatch.transport.pickling import loads

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gpu_dispatch.transport.arena import ArenaReader
    from gpu_dispatch.wire import RunTasks


class Sealed:
    """Tasks that must run as one batch, alone: see ``SendTasks.together``."""

    __slots__ = ("tasks",)

    def __init__(self, tasks: list[tuple[int, Any]]) -> None:
        self.tasks = tasks


class Mailbox:
    def __init__(self, arena: ArenaReader, *, in_batches: bool) -> None:
        self._arena = arena
        self._in_batches = in_batches  # one at a time, a sealed group is just some tasks
        self._tasks: deque[tuple[int, Any] | Sealed] = deque()
        lock = threading.Lock()
        self._news = threading.Condition(lock)
        # The threads that prepare wait here, on the same lock: whoever finishes a task wakes one of them, not all.
        self._takers = threading.Condition(lock)
        self._in_hand = 0
        self.finishing = False
        self.take = self._tasks.popleft
        """The oldest task; IndexError when there is none. Bound directly: it is called once per task."""

    def deliver(self, message: RunTasks) -> None:
        form, data = message.payload
        tasks = zip(message.task_ids, loads(data) if form == "together" else data, strict=True)
        with self._news:
            if message.together and self._in_batches:
                self._tasks.append(Sealed(list(tasks)))
            else:
                self._tasks.extend(tasks)
            self._news.notify_all()
            self._takers.notify()

    def open(self, item: Any) -> Any:
        """What ``take`` gave, as the user's code gets it. Inside its own task, so that one that will not open is that
        task's failure; and once only: what lies in the arena is free to be overwritten when it is gone."""
        return unpack(item, self._arena) if type(item) in PACKED else item

    def give_back(self, count: int) -> list[int]:
        """The youngest tasks that have not begun, at most ``count``, in their order; never to be run here."""
        returned: list[int] = []
        while len(returned) < count:
            try:
                task = self._tasks.pop()
            except IndexError:
                break
            for task_id, item in reversed(task.tasks) if isinstance(task, Sealed) else (task,):
                returned.append(task_id)
                discard(item, self._arena)
        returned.reverse()
        return returned

    def finish(self) -> None:
        """No more mail will come."""
        with self._news:
            self.finishing = True
            self._news.notify_all()
            self._takers.notify_all()

    @property
    def has_news(self) -> bool:
        """There are tasks, or there will be none any more."""
        return bool(self._tasks) or self.finishing

    def wait(self, timeout: float | None = None) -> None:
        """Until there is mail, or there will be none any more."""
        with self._news:
            if not self._tasks and not self.finishing:
                self._news.wait(timeout)

    @property
    def exhausted(self) -> bool:
        """No more mail will come, and nobody has any in hand."""
        return self.finishing and not self._tasks and not self._in_hand

    # --- for several takers: the threads that prepare items ahead of the main thread --------------------------

    def take_in_hand(self, most: Callable[[], int]) -> tuple[int, Any] | None:
        """The oldest task, waiting for one and until fewer than ``most()`` are in hand; ``None`` when no more will
        come. Sealed ones are left to ``take_alone``."""
        with self._news:
            while not self._tasks or type(self._tasks[0]) is Sealed or self._in_hand >= most():
                if self.finishing and not self._tasks:
                    self._takers.notify()
                    return None
                self._takers.wait()
            task = self._tasks.popleft()
            self._in_hand += 1
            self._takers.notify()  # there may be more, and room for it: each that is woken wakes the next
            return task  # type: ignore[return-value]

    def put_down(self, count: int) -> None:
        """Tasks taken in hand have been run, or have failed."""
        with self._news:
            self._in_hand -= count
            self._news.notify_all()
            self._takers.notify()

    def take_alone(self) -> Sealed | None:
        """A sealed group, when it is the oldest and nothing else is in hand."""
        with self._news:
            if not self.sealed_is_next:
                return None
            self._takers.notify()
            return self._tasks.popleft()  # type: ignore[return-value]

    @property
    def sealed_is_next(self) -> bool:
        return bool(self._tasks) and not self._in_hand and type(self._tasks[0]) is Sealed

    def notify(self) -> None:
        """Wake the main thread: something it watches has changed."""
        with self._news:
            self._news.notify_all()

    def wait_until(self, ready: Callable[[], bool], timeout: float | None = None) -> None:
        """Until that is so, or this mailbox is exhausted."""
        with self._news:
            self._news.wait_for(lambda: ready() or self.exhausted, timeout)
