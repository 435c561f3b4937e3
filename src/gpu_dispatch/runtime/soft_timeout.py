"""The soft timeout: an exception inside user code when a task's time is up, and the worker lives on.

Arming a timer for every task would cost two system calls per task. Instead one timer runs across tasks: when it
rings, the handler looks whether the *current* task is late; if not, it sets the timer to that task's deadline.

The exception is raised only between ``begin`` and ``end``, that is, in user code: never in our own bookkeeping.
What user code does with it is its business; a task that swallows it and goes on meets the hard limit in the parent.
"""

from __future__ import annotations

import threading
import time

from gpu_dispatch.errors import SoftTimeout
from gpu_dispatch.runtime.c_signal import signal

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from types import FrameType

NEVER = float("inf")
SHORTEST_S = 0.001  # setitimer(0) would disarm
LONGEST_S = 86_400.0  # a timer cannot be set to any length; it is set again when it rings too early


class SoftTimer:
    """Use from the main thread only: that is where Python runs signal handlers."""

    def __init__(self, limit_s: float | None) -> None:
        usable = limit_s is not None and hasattr(signal, "setitimer")
        self.limit_s = limit_s if usable and threading.current_thread() is threading.main_thread() else None
        self.deadline = NEVER
        self.ringing_at = NEVER
        self._before: object = None
        self.rang = False
        """Whether the exception was raised in the current task. The runner resets it."""

    def install(self) -> None:
        if self.limit_s is not None:
            self._before = signal.signal(signal.SIGALRM, self._ring)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))  # a mask is inherited from the parent

    def uninstall(self) -> None:
        if self.limit_s is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)  # type: ignore[arg-type]

    def begin(self, now: float) -> None:
        """A task starts at ``now``."""
        limit = self.limit_s
        if limit is None:
            return
        self.deadline = now + limit
        if self.ringing_at > self.deadline:
            self.ring_by(self.deadline)

    def end(self) -> None:
        self.deadline = NEVER

    def ring_by(self, deadline: float) -> None:
        now = time.monotonic()
        delay_s = min(max(SHORTEST_S, deadline - now), LONGEST_S)
        self.ringing_at = now + delay_s
        signal.setitimer(signal.ITIMER_REAL, delay_s)

    def _ring(self, _signum: int, _frame: FrameType | None) -> None:
        self.ringing_at = NEVER
        remaining = self.deadline - time.monotonic()
        if remaining == NEVER:
            return
        if remaining > 0:
            self.ring_by(self.deadline)
            return
        self.deadline = NEVER
        self.rang = True
        raise SoftTimeout(f"task_timeout of {self.limit_s:g} s exceeded")
