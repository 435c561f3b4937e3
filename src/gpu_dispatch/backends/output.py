"""What workers print: passed on, kept for crash reports, written to log files — by one thread of its own.

A worker's stdout and stderr are pipes that end here, never the protocol channel. The engine's loop does not touch
them: a blocked terminal may stop this thread, and then the workers that print, but no timeout and no restart.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import sys
import threading
from collections import deque

from gpu_dispatch.backends.wake_pipe import WakePipe
from gpu_dispatch.errors import UsageError

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

TAIL_LINES = 20
MOST_LINE = 2000
"""Characters of one line that are kept for reports; log files get everything."""
MOST_PARTIAL = 1 << 16
"""Bytes of a line without an end that are held back."""
READ_BYTES = 1 << 16


class _Source:
    __slots__ = ("ended", "log", "partial", "stream", "tail", "worker_id")

    def __init__(self, worker_id: int, stream: str, tail: deque[str], log: BinaryIO | None, ended: threading.Event):
        self.worker_id = worker_id
        self.stream = stream
        self.tail = tail
        self.log = log
        self.partial = b""
        self.ended = ended


class OutputPump:
    def __init__(self, *, suppress: bool, log_dir: str | None) -> None:
        self._suppress = suppress
        self._log_dir = log_dir
        if log_dir is not None:
            try:
                os.makedirs(log_dir, exist_ok=True)
            except OSError as error:
                raise UsageError(f"log_dir {log_dir!r} cannot be used: {error}") from None
        self._selector = selectors.DefaultSelector()
        self._wake_pipe = WakePipe()
        self._selector.register(self._wake_pipe, selectors.EVENT_READ, None)
        self._new: deque[tuple[int, _Source]] = deque()
        self._logs: dict[int, BinaryIO] = {}
        self._closing = threading.Event()
        self.recent: deque[tuple[int, str]] = deque(maxlen=50)
        """(worker, line) of all workers, the latest last. Read by views from other threads."""
        self._thread = threading.Thread(target=self._pump, name="gpu-dispatch-output", daemon=True)
        self._thread.start()

    def log_path(self, worker_id: int) -> str | None:
        return None if self._log_dir is None else os.path.join(self._log_dir, f"worker-{worker_id}.log")

    def add(self, worker_id: int, stdout_fd: int, stderr_fd: int) -> Tail:
        """Take over the reading ends of a new worker's pipes."""
        log = self._logs.get(worker_id)
        path = self.log_path(worker_id)
        if log is None and path is not None:
            log = self._logs[worker_id] = open(path, "ab", buffering=0)  # noqa: SIM115 -- closed by the thread
        lines: deque[str] = deque(maxlen=TAIL_LINES)
        ended = threading.Event()
        for name, fd in (("stdout", stdout_fd), ("stderr", stderr_fd)):
            os.set_blocking(fd, False)
            self._new.append((fd, _Source(worker_id, name, lines, log, ended)))
        self._wake_pipe.wake()
        return Tail(lines, ended)

    def note(self, worker_id: int, text: str) -> None:
        """A line of our own among those of a worker."""
        self.recent.append((worker_id, f"gpu_dispatch: {text}"))
        if not self._suppress:
            _pass_on("stderr", f"gpu_dispatch: worker {worker_id} {text}\n".encode())

    def close(self, patience_s: float = 1.0) -> None:
        """Pass on what has arrived; a grandchild that keeps a pipe open does not hold us up."""
        self._closing.set()
        self._wake_pipe.wake()
        self._thread.join(patience_s)

    def _pump(self) -> None:
        try:
            while True:
                closing = self._closing.is_set()
                while self._new:
                    fd, source = self._new.popleft()
                    self._selector.register(fd, selectors.EVENT_READ, source)
                ready = self._selector.select(0 if closing else None)
                for key, _ in ready:
                    if key.data is None:
                        self._wake_pipe.swallow()
                    else:
                        self._read(key.fd, key.data)
                if closing and not any(key.data for key, _ in ready):
                    return
        finally:
            for key in list(self._selector.get_map().values()):
                if key.data is not None:
                    self._end(key.fd, key.data)
            self._selector.close()
            self._wake_pipe.close()
            for log in self._logs.values():
                log.close()

    def _read(self, fd: int, source: _Source) -> None:
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(fd, source)
            return
        # Whole lines only, so that those of two pipes do not mix; a carriage return ends one too (progress bars).
        data = source.partial + data
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) - cut > MOST_PARTIAL:
            cut = len(data)
        source.partial = data[cut:]
        if cut:
            self._take(source, data[:cut])

    def _take(self, source: _Source, data: bytes) -> None:
        if source.log is not None:
            with contextlib.suppress(OSError):  # a full disk must not stop the run
                source.log.write(data)
        if not self._suppress:
            _pass_on(source.stream, data)
        for line in data.splitlines()[-TAIL_LINES:]:
            text = line[:MOST_LINE].decode("utf-8", "backslashreplace")
            source.tail.append(text)
            self.recent.append((source.worker_id, text))

    def _end(self, fd: int, source: _Source) -> None:
        if source.partial:
            self._take(source, source.partial)
        self._selector.unregister(fd)
        os.close(fd)
        if source.stream == "stderr":
            source.ended.set()


class Tail:
    """The last lines of one worker's life."""

    def __init__(self, lines: deque[str], ended: threading.Event) -> None:
        self._lines = lines
        self._ended = ended

    def text(self, patience_s: float) -> str:
        """Call after the death: waits a moment for the pump to read what the worker said last."""
        self._ended.wait(patience_s)
        return "\n".join(f"  {line}" for line in list(self._lines))


def _pass_on(stream: str, data: bytes) -> None:
    """Through ``sys.stdout`` and ``sys.stderr`` as they are now: notebooks and test runners replace them."""
    target: TextIO | None = getattr(sys, stream)
    if target is None:
        return
    with contextlib.suppress(OSError, ValueError):  # closed, or a broken pipe: nobody is listening
        target.write(data.decode("utf-8", "backslashreplace"))
        target.flush()
