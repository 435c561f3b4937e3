"""What happened to workers: kept for the statistics, told to those who listen, and judged at the end."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpu_dispatch.engine.timeline import Timeline
from gpu_dispatch.errors import AllWorkersFailed, MainGuardError
from gpu_dispatch.observe.stats import RunStats
from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.wire import Ready

GUARD_MARK = "no __main__ guard"
"""The first line of a setup failure that is really a script without a guard: see runtime/main_module.py."""


class WorkerLog:
    def __init__(self, stats: RunStats, worker_ids: Sequence[int], timeline: Timeline | None) -> None:
        self._stats = stats
        self._worker_ids = worker_ids
        self._timeline = timeline
        self._retired: dict[int, tuple[str, bool]] = {}  # slot → (why, whether in its setup)
        self._cleanup_failed: set[int] = set()
        self._any_was_ready = False

    def starting(self, slot: int, *, again: bool) -> None:
        if again:
            self._stats.restarts += 1
            self._stats.workers[slot].restarts += 1
            self._status(slot, "restarting")
        self._event("worker_starting", slot)

    def ready(self, slot: int, said: Ready) -> None:
        self._any_was_ready = True
        worker = self._stats.workers[slot]
        worker.setup_s, worker.pid = said.setup_s, said.pid
        self._status(slot, "idle")
        self._event("worker_ready", slot, duration_s=said.setup_s)

    def setup_failed(self, slot: int, text: str) -> None:
        self._stats.workers[slot].error = text
        self._event("worker_setup_failed", slot, detail=text)

    def cleanup_failed(self, slot: int, text: str) -> None:
        self._cleanup_failed.add(slot)
        self._stats.cleanup_failures += 1
        self._stats.workers[slot].error = text

    def finished(self, slot: int) -> None:
        self._stats.workers[slot].pid = None
        self._status(slot, "error" if slot in self._cleanup_failed else "finished")
        self._event("worker_finished", slot)

    def died(self, slot: int, cause: str, *, cleaning_up: bool) -> None:
        worker = self._stats.workers[slot]
        worker.pid = None
        if cleaning_up:
            self.cleanup_failed(slot, cause)
            self._status(slot, "error")
        elif slot not in self._retired:  # a failed setup has said more than the death that follows it
            self._status(slot, "restarting")
            worker.error = cause
        self._event("worker_died", slot, detail=cause)

    def stays_dead(self, slot: int, *, by_us: bool) -> None:
        """Nothing is left for it to do, so it is not started again."""
        if slot not in self._retired and slot not in self._cleanup_failed:
            self._status(slot, "finished" if by_us else "error")

    def retired(self, action: do.RetireSlot) -> None:
        self._retired[action.slot] = (action.text, action.in_setup)
        self._stats.workers[action.slot].error = action.text
        self._stats.setup_failures += action.in_setup
        self._status(action.slot, "error" if action.in_setup else "out of service")
        self._event("worker_retired", action.slot, detail=action.text)

    def why_none_is_left(self) -> BaseException:
        guard = next((text for text, _ in self._retired.values() if text.startswith(GUARD_MARK)), None)
        if guard is not None:
            return MainGuardError(guard.partition("\n")[2])
        in_setup = all(in_setup for _, in_setup in self._retired.values()) and not self._any_was_ready
        failures = tuple((self._worker_ids[slot], text) for slot, (text, _) in sorted(self._retired.items()))
        head = "All workers failed during setup" if in_setup else "All workers failed; none is left to go on"
        body = "\n\n".join(f"[worker {worker_id}] {text.rstrip()}" for worker_id, text in failures)
        return AllWorkersFailed(f"{head}:\n{body}", failures)

    def _status(self, slot: int, status: str) -> None:
        self._stats.workers[slot].set_status(status, time.monotonic())

    def _event(self, kind: str, slot: int, *, duration_s: float | None = None, detail: str | None = None) -> None:
        if self._timeline is not None:
            self._timeline.worker(kind, slot, duration_s=duration_s, detail=detail)
