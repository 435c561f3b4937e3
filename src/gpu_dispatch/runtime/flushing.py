"""Sending finished results while the main thread is already in its next task.

To build a frame and write it takes some 60 µs when the caches are cold, as they are after a task of a while. That
is half a per cent of a 10 ms task: time in which a GPU has nothing to do.
"""

from __future__ import annotations

import threading
from _thread import allocate_lock

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from gpu_dispatch.runtime.outbox import Outbox


class Flusher:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._is_asked = False
        self._asked = allocate_lock()  # held, but for the moment in which it wakes the thread
        self._asked.acquire()
        self._has_thread = False

    def ask(self) -> None:
        """By the main thread only. Soon, and once, however often it asks until then."""
        if not self._has_thread and not self._start():
            self._outbox.flush()
        elif not self._is_asked:
            self._is_asked = True
            self._asked.release()

    def _start(self) -> bool:
        """Not at birth: workers with tiny tasks never need it. False: there are no threads left."""
        try:
            threading.Thread(target=self._flush, name="gpu-dispatch-flusher", daemon=True).start()
            self._has_thread = True
        except RuntimeError:
            pass
        return self._has_thread

    def _flush(self) -> None:
        while True:
            self._asked.acquire()
            self._is_asked = False
            self._outbox.flush_beside()
