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
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """By the main thread only. Soon, and once, however often it asks until then."""
        if self._thread is None:  # not at once: workers with tiny tasks never need it
            self._thread = threading.Thread(target=self._flush, name="gpu-dispatch-flusher", daemon=True)
            self._thread.start()
        if not self._is_asked:
            self._is_asked = True
            self._asked.release()

    def _flush(self) -> None:
        while True:
            self._asked.acquire()
            self._is_asked = False
            self._outbox.flush_for_parent()
