"""Ctrl-C and SIGTERM while a run is going on: the handlers only take a note.

The first asks the run to drain; the second kills the workers at once and raises, so that a callback that hangs cannot
keep the prompt. The user's own handlers come back when the run is over. Outside the main thread nothing is installed:
Python allows handlers there only.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

from gpu_dispatch.errors import Terminated

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any

HANDLED = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    def __init__(self, on_first: Callable[[str], None], on_second: Callable[[str], None]) -> None:
        self._on_first = on_first
        self._on_second = on_second
        self._before: dict[int, Any] = {}
        self.received: list[int] = []

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for signum in HANDLED:
                before = signal.getsignal(signum)
                if before is signal.SIG_IGN or before is None:
                    continue  # nohup, or a handler that Python did not install and could not put back
                self._before[signum] = before
                signal.signal(signum, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, before in self._before.items():
            signal.signal(signum, before)
        self._before.clear()

    def _note(self, signum: int, _frame: FrameType | None) -> None:
        self.received.append(signum)
        name = "Ctrl-C" if signum == signal.SIGINT else "SIGTERM"
        if len(self.received) == 1:
            self._on_first(name)
        else:
            self._on_second(name)
            raise self.exception()

    def exception(self) -> BaseException:
        """What ``run()`` raises because of what was received."""
        return Terminated() if signal.SIGTERM in self.received else KeyboardInterrupt()
