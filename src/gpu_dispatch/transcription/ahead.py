"""An iterator that is run ahead of its consumer, on a thread."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def run_ahead(items: Iterable[T], depth: int) -> Iterator[T]:
    """Yield the items, while a thread makes the next ``depth`` of them. What they raise is raised here.

    When the consumer stops early, the thread stops at its next item; this waits for that.
    """
    ready: queue.Queue[tuple[bool, T | BaseException | None]] = queue.Queue(maxsize=depth)
    stopped = threading.Event()

    def work() -> None:
        outcome: BaseException | None = None
        try:
            for item in items:
                ready.put((True, item))
                if stopped.is_set():
                    return
        except BaseException as error:
            outcome = error
        ready.put((False, outcome))

    thread = threading.Thread(target=work, name="gpu-dispatch-ahead", daemon=True)
    thread.start()
    try:
        while True:
            is_item, value = ready.get()
            if is_item:
                yield value  # type: ignore[misc]
            elif isinstance(value, BaseException):
                raise value
            else:
                return
    finally:
        stopped.set()
        while thread.is_alive():
            with contextlib.suppress(queue.Empty):
                ready.get_nowait()  # it may be waiting for room
            thread.join(0.01)
