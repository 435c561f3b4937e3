"""Watch: the thread that pulls snapshots from a run and shows them to a view.

    run ◄──get_stats()── Watch (its thread) ──show(snapshot)──► View

Guarantees
- The run never waits for a view: it is asked for snapshots and knows nothing of views.
- A view that raises is closed and dropped with one warning; the run goes on.
- A view gets at most a twentieth of a core, however slow it is: it is shown fewer snapshots instead.
- ``close`` returns, also when the view is stuck in a write to a terminal that does not read.
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from gpu_dispatch.errors import UsageError
from gpu_dispatch.ui.view import View

_COST_LIMIT = 20  # seconds of rest per second of drawing
_STUCK_AFTER_S = 2.0

GetStats = Callable[[], Mapping[str, Any] | None]
"""A snapshot of the run; ``None`` as long as it has not begun."""


class Watch:
    """``with Watch(...):`` around a run."""

    def __init__(self, view: View, get_stats: GetStats, *, refresh_rate: float = 4.0) -> None:
        self._view = view
        self._get_stats = get_stats
        self._period_s = 1.0 / check_refresh_rate(refresh_rate)
        self._ended = threading.Event()
        self._dropped = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Watch:
        # On the caller's thread: from here on whatever it prints belongs above the view.
        if self._attempt(self._view.open):
            self._thread = threading.Thread(target=self._keep_showing, name="gpu_dispatch-view", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Show the end; safe to call twice."""
        self._ended.set()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        stuck_at = time.monotonic() + _STUCK_AFTER_S
        try:
            thread.join(_STUCK_AFTER_S)
        finally:  # a second Ctrl-C must not leave the terminal without a cursor
            thread.join(max(0.0, stuck_at - time.monotonic()))
            if not thread.is_alive() and not self._dropped:
                self._attempt(lambda: self._view.close(self._get_stats()))  # a run that never began has no summary

    def _keep_showing(self) -> None:
        while True:
            begun = time.thread_time()
            if not self._attempt(self._show):
                return
            cost = time.thread_time() - begun
            if self._ended.wait(max(self._period_s, cost * _COST_LIMIT)):
                return

    def _show(self) -> None:
        stats = self._get_stats()
        if stats is not None:
            self._view.show(stats)

    def _attempt(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except Exception as error:
            self._drop(error)
            return False
        return True

    def _drop(self, error: Exception) -> None:
        self._dropped = True
        try:
            self._view.close(None)
        except Exception:  # the same cause, most likely: a closed terminal cannot be restored either
            pass
        try:
            warnings.warn(
                f"the view of the run failed and was dropped, the run goes on: {type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
        except Exception:  # warnings turned into errors, or nowhere to write them
            pass


def check_refresh_rate(refresh_rate: object) -> float:
    if isinstance(refresh_rate, bool) or not isinstance(refresh_rate, int | float):
        raise UsageError(f"refresh_rate must be a number of refreshes per second, got {refresh_rate!r}")
    if not (refresh_rate > 0 and math.isfinite(refresh_rate)):
        raise UsageError(f"refresh_rate must be positive (refreshes per second), got {refresh_rate!r}")
    return float(refresh_rate)
