"""Ending a poll from another thread, or from a signal handler.

Safe to call for ever after: whoever wakes a pipe that is closed (a feeder whose iterable had blocked until the run was
over) writes nowhere. Without that, the byte would go into whatever file has got the number of our descriptor meanwhile.
"""

from __future__ import annotations

import os
import threading


class WakePipe:
    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._lock = threading.RLock()  # re-entrant: a signal handler may wake while its own thread is waking
        self._closed = False

    def fileno(self) -> int:
        """To be polled for reading."""
        return self._read

    def wake(self) -> None:
        with self._lock:
            if self._closed:
                return
            try:
                os.write(self._write, b"x")
            except BlockingIOError:
                pass  # full: a wake-up is already waiting

    def swallow(self) -> None:
        """Forget the wake-ups so far."""
        try:
            os.read(self._read, 4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._read)
                os.close(self._write)
