"""While a region is on the screen, everything this process prints waits here for the next frame.

    print(), warnings ──► sys.stdout, sys.stderr ─┐
    logging           ──► stream handlers        ─┼─► Capture ──take()──► above the region
    rich              ──► the view's console     ─┘

Only streams that are terminals are replaced: ``python job.py > results.txt`` keeps its file. The replaced streams
come back on ``close``, unless somebody else has replaced them in the meantime.

Not here: what worker processes print. That goes to their log files.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any

from gpu_dispatch.ui.sanitise import scrollable

if TYPE_CHECKING:
    from rich.console import Console

_LONGEST_LINE = 64 * 1024  # characters: an unfinished line beyond that is shown as it is
_WAITING_LIMIT = 256 * 1024  # characters: beyond, the printing thread draws itself and so is slowed down


class Capture:
    def __init__(self, console: Console, on_overflow: Callable[[], None]) -> None:
        self._console = console
        self._on_overflow = on_overflow
        self._lock = threading.RLock()  # a signal handler may print while its thread is printing
        self.is_open = False
        self._waiting: list[str] = []
        self._waiting_size = 0
        self._undo: list[Callable[[], None]] = []

    def open(self) -> None:
        self.is_open = True
        console_file = self._console.file
        proxies: dict[int, CapturedStream] = {}
        for stream in (sys.stdout, sys.stderr, console_file):
            if is_terminal(stream):
                proxies.setdefault(id(stream), CapturedStream(stream, self))
        for name in ("stdout", "stderr"):
            proxy = proxies.get(id(getattr(sys, name)))
            if proxy is not None:
                self._replace(sys, name, proxy)
        proxy = proxies.get(id(console_file))
        if proxy is not None and self._console.file is console_file:  # not one that follows sys.stdout anyway
            self._replace(self._console, "file", proxy)
        for handler in _stream_handlers():
            proxy = proxies.get(id(handler.stream))
            if proxy is not None:
                self._replace(handler, "stream", proxy)

    def take(self, *, everything: bool = False) -> str:
        """The whole lines that have been printed since; with ``everything`` the unfinished last one too."""
        with self._lock:
            text = "".join(self._waiting)
            end = text.rfind("\n") + 1
            # An unfinished line that rewrites itself (a progress bar) is kept as it would look, not as it grew.
            rest = text[end:]
            rest = rest[rest.rfind("\r", 0, -1) + 1 :]
            if rest and (everything or len(rest) > _LONGEST_LINE):
                text, rest = text[:end] + rest + "\n", ""
            else:
                text = text[:end]
            self._waiting = [rest] if rest else []
            self._waiting_size = len(rest)
        return scrollable(text)

    def add(self, text: str) -> bool:
        """Keep the text for the next frame; ``False`` when there will be none."""
        with self._lock:
            if not self.is_open:
                return False
            self._waiting.append(text)
            self._waiting_size += len(text)
            too_much = self._waiting_size > _WAITING_LIMIT
        if too_much:
            self._on_overflow()
        return True

    def close(self) -> None:
        with self._lock:
            self.is_open = False
        while self._undo:
            self._undo.pop()()

    def _replace(self, owner: Any, name: str, proxy: CapturedStream) -> None:
        original = getattr(owner, name)

        def undo() -> None:
            if getattr(owner, name) is proxy:
                setattr(owner, name, original)

        setattr(owner, name, proxy)
        self._undo.append(undo)


class CapturedStream:
    """Stands in for a terminal stream: writing is captured, everything else is the stream's own."""

    def __init__(self, stream: IO[str], capture: Capture) -> None:
        self._stream = stream
        self._capture = capture

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if not self._capture.add(text):  # kept by somebody beyond the end of the view
            self._stream.write(text)
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if not self._capture.is_open:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def is_terminal(stream: Any) -> bool:
    """Whether somebody looks at what is written there; also for streams that are closed, or ``None``."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError, OSError):  # None, closed, or no file at all
        return False


def _stream_handlers() -> Iterator[logging.StreamHandler[Any]]:
    loggers = [logging.root, *(x for x in logging.root.manager.loggerDict.values() if isinstance(x, logging.Logger))]
    for logger in loggers:
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
                yield handler
