"""Tasks that have arrived in the worker and not begun.

The reader thread puts them in and, on recall, takes the youngest out again; the main thread takes the oldest.
``deque`` makes both ends safe without a lock: a task is taken by exactly one of the two.
"""

from __future__ import annotations

import pickle
import threading
from collections import deque
from typing import Any, NamedTuple

from gpu_dispatch.protocol import RunTasks


class Sealed(NamedTuple):
    """Tasks that must run as one batch, alone: see ``SendTasks.together``."""

    tasks: list[tuple[int, Any]]


class Encoded(NamedTuple):
    """An item still in its pickle: it is opened inside its own task, so that a bad one is that task's failure."""

    data: Any

    def open(self) -> Any:
        return pickle.loads(self.data)


class Mailbox:
    def __init__(self) -> None:
        self._tasks: deque[tuple[int, Any] | Sealed] = deque()
        self._mail = threading.Event()
        self.finishing = False
        self.take = self._tasks.popleft
        """The oldest task; IndexError when there is none. Bound directly: it is called once per task."""

    def __len__(self) -> int:
        return len(self._tasks)

    def deliver(self, message: RunTasks) -> None:
        form, data = message.payload
        items = pickle.loads(data) if form == "atoms" else map(Encoded, data)
        if message.together:
            self._tasks.append(Sealed(list(zip(message.task_ids, items, strict=True))))
        else:
            self._tasks.extend(zip(message.task_ids, items, strict=True))
        self._mail.set()

    def give_back(self, count: int) -> list[int]:
        """At most ``count`` tasks that have not begun, the youngest first; never to be run here."""
        returned: list[int] = []
        while len(returned) < count:
            try:
                task = self._tasks.pop()
            except IndexError:
                break
            if isinstance(task, Sealed):
                returned.extend(task_id for task_id, _ in task.tasks)
            else:
                returned.append(task[0])
        return returned

    def finish(self) -> None:
        """No more mail will come."""
        self.finishing = True
        self._mail.set()

    def wait(self, timeout: float | None = None) -> None:
        """Until there is mail, or there will be none any more."""
        self._mail.clear()
        if not self._tasks and not self.finishing:
            self._mail.wait(timeout)
