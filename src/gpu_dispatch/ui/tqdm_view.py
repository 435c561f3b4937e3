"""tqdm bars: one for the run, and below it one per GPU at its own position."""

from __future__ import annotations

import shutil
import threading
from typing import IO, Any

from tqdm import tqdm

from gpu_dispatch.ui.capture import is_terminal
from gpu_dispatch.ui.sanitise import one_line
from gpu_dispatch.ui.snapshot import Snapshot, label, settled

_LOG_EVERY_S = 5.0  # where bars cannot be redrawn, each refresh is a line
_GPU = "{desc}: {n_fmt} [{elapsed}, {rate_fmt}{postfix}]"


class _Bar(tqdm):  # type: ignore[misc]  # tqdm has no types
    # No monitor thread that would outlive the run, and a lock between threads only: we draw from one process.
    monitor_interval = 0


_Bar.set_lock(threading.RLock())


class TqdmView:
    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._is_terminal = is_terminal(stream)
        self._overall: Any = None
        self._gpus: dict[object, Any] = {}

    def open(self) -> None:
        pause = 0.0 if self._is_terminal else _LOG_EVERY_S
        self._overall = _Bar(
            desc="tasks", unit="task", file=self._stream, position=0, mininterval=pause, dynamic_ncols=True
        )

    def show(self, snapshot: Snapshot) -> None:
        self._note(snapshot)
        _advance(self._overall, settled(snapshot))
        if self._is_terminal:
            self._show_gpus(snapshot)

    def close(self, snapshot: Snapshot | None) -> None:
        for bar in self._gpus.values():
            bar.close()
        if self._overall is not None:
            if snapshot is not None:
                self._note(snapshot)
                self._overall.n = settled(snapshot)
            self._overall.close()  # draws it once more

    def _note(self, snapshot: Snapshot) -> None:
        """What stands beside the overall bar."""
        self._overall.total = snapshot.get("expected_total")
        trouble = {
            word: snapshot[key]
            for key, word in (("failed", "failed"), ("timeouts", "timed_out"), ("restarts", "restarts"))
            if snapshot.get(key)
        }
        self._overall.set_postfix(trouble, refresh=False)

    def _show_gpus(self, snapshot: Snapshot) -> None:
        room = shutil.get_terminal_size().lines - 2
        for worker_id, worker in list((snapshot.get("gpu_status") or {}).items())[: max(0, room)]:
            bar = self._gpus.get(worker_id)
            if bar is None:
                bar = self._gpus[worker_id] = _Bar(
                    desc=f"GPU {label(worker)}",
                    unit="task",
                    file=self._stream,
                    position=len(self._gpus) + 1,
                    leave=False,
                    mininterval=0,
                    bar_format=_GPU,
                    dynamic_ncols=True,
                )
            bar.set_postfix_str(one_line(worker.get("status")), refresh=False)
            _advance(bar, sum(worker.get(key) or 0 for key in ("completed", "failed", "timeouts")))


def _advance(bar: Any, done: int) -> None:
    if not bar.update(done - bar.n) and bar.mininterval == 0:
        bar.refresh()
