"""The figures of one run, and snapshots of them.

The engine's loop writes what happens to workers, the delivering thread what happens to tasks; any thread may take a
snapshot. No lock: each figure has one writer, and a snapshot that is a microsecond apart in two figures harms nobody.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from gpu_dispatch.observe.failure_causes import FailureCauses
from gpu_dispatch.observe.throughput import Throughput

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any

MOST_SLOWEST = 10
DURATIONS = 101  # per worker, for the median

Running = Callable[[int], tuple[tuple[int, ...], float | None]]


class WorkerStats:
    def __init__(self, worker_id: int, gpu_id: int | str, device: str, now: float) -> None:
        self.worker_id = worker_id
        self.gpu_id = gpu_id
        self.device = device
        self.pid: int | None = None
        self.status = "initializing"
        self.status_at = now
        self.completed = self.failed = self.timeouts = self.restarts = 0
        self.busy_s = 0.0
        self.setup_s: float | None = None
        self.last_duration: float | None = None
        self.durations: deque[float] = deque(maxlen=DURATIONS)
        self.batch_size: int | None = None
        self.error: str | None = None
        self.log_file: str | None = None

    def set_status(self, status: str, now: float) -> None:
        if status != self.status:
            self.status, self.status_at = status, now


class RunStats:
    def __init__(
        self, workers: Iterable[tuple[int, int | str, str]], expected_total: int | None, task_timeout: float | None
    ) -> None:
        now = time.monotonic()
        self.state = "starting"
        self.started_at = now
        self.start_time = time.time()
        self.end_time: float | None = None
        self.ended_at: float | None = None
        self.expected_total = expected_total
        self.task_timeout = task_timeout
        self.workers = [WorkerStats(worker_id, gpu_id, device, now) for worker_id, gpu_id, device in workers]
        self.total = self.completed = self.failed = self.timeouts = self.cancelled = self.crashed = 0
        self.retries = self.restarts = self.setup_failures = self.cleanup_failures = 0
        self.causes = FailureCauses()
        self.throughput = Throughput(now)
        self._slowest: list[tuple[float, int, int]] = []
        # Filled in by the engine; a snapshot reads through them.
        self.queue_depth: Callable[[], int] = lambda: 0
        self.in_flight: Callable[[], int] = lambda: 0
        self.running: Running = lambda slot: ((), None)
        self.output: Callable[[], list[tuple[int, str]]] = list
        self.log_dir: str | None = None

    def add_worker(self, worker_id: int, gpu_id: int | str, device: str, log_file: str | None = None) -> None:
        worker = WorkerStats(worker_id, gpu_id, device, time.monotonic())
        worker.log_file = log_file
        self.workers.append(worker)

    # --- told by the delivering thread -----------------------------------------------------------------------

    def succeeded(self, slot: int, task_ids: Sequence[int], busy_s: Sequence[float]) -> None:
        count = len(task_ids)
        self.completed += count
        worker = self.workers[slot]
        worker.completed += count
        worker.busy_s += sum(busy_s)
        worker.last_duration = busy_s[-1]
        worker.durations.append(busy_s[-1])
        longest = max(busy_s)
        if len(self._slowest) < MOST_SLOWEST or longest > self._slowest[0][0]:
            self._note_slow(longest, task_ids[busy_s.index(longest)], worker.worker_id)
        self.throughput.add(count, time.monotonic())

    def failed_one(self, slot: int, task_id: int, word: str, kind: str, text: str, busy_s: float) -> None:
        worker = self.workers[slot] if slot >= 0 else None
        if word == "cancelled":
            self.cancelled += 1
        elif word == "timeout":
            self.timeouts += 1
            self.causes.add(task_id, "timed out")
            if worker:
                worker.timeouts += 1
        else:
            self.failed += 1
            self.crashed += kind == "crash"
            self.causes.add(task_id, text)
            if worker:
                worker.failed += 1
        if worker and busy_s:
            worker.busy_s += busy_s
            worker.last_duration = busy_s
        if word != "cancelled":  # nobody worked on it
            self.throughput.add(1, time.monotonic())

    def _note_slow(self, duration_s: float, task_id: int, worker_id: int) -> None:
        push = heapq.heappush if len(self._slowest) < MOST_SLOWEST else heapq.heapreplace
        push(self._slowest, (duration_s, task_id, worker_id))

    # --- read by anybody ---------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        now = self.ended_at or time.monotonic()
        settled = self.completed + self.failed + self.timeouts + self.cancelled
        elapsed = max(1e-9, now - self.started_at)
        remaining = None if self.expected_total is None else max(0, self.expected_total - settled)
        return {
            "state": self.state,
            "total": self.total,
            "pending": max(0, self.total - settled),
            "completed": self.completed,
            "failed": self.failed,
            "timeouts": self.timeouts,
            "cancelled": self.cancelled,
            "crashed": self.crashed,
            "retries": self.retries,
            "restarts": self.restarts,
            "setup_failures": self.setup_failures,
            "cleanup_failures": self.cleanup_failures,
            "expected_total": self.expected_total,
            "queue_depth": self.queue_depth(),
            "in_flight": self.in_flight(),
            "start_time": self.start_time,
            "end_time": self.end_time,
            "elapsed_s": elapsed,
            "throughput": (settled - self.cancelled) / elapsed,
            "throughput_recent": self.throughput.recent(now),
            "throughput_history": self.throughput.history(now),
            "eta_s": None if remaining is None else self.throughput.eta(remaining, now),
            "gpu_status": {w.worker_id: self._worker(slot, w, now) for slot, w in enumerate(self.workers)},
            "errors": self.causes.ranked(),
            "slowest": [
                {"task_id": task_id, "worker_id": worker_id, "duration_s": duration_s}
                for duration_s, task_id, worker_id in sorted(self._slowest, reverse=True)
            ],
            "output": self.output(),
            "log_dir": self.log_dir,
        }

    def _worker(self, slot: int, worker: WorkerStats, now: float) -> dict[str, Any]:
        running, since = self.running(slot)
        status, busy_s = worker.status, worker.busy_s
        age = None
        if running and since is not None:
            age = max(0.0, now - since)
            busy_s += age
        if status == "idle" and running:
            status = "processing"
        return {
            "worker_id": worker.worker_id,
            "gpu_id": worker.gpu_id,
            "device": worker.device,
            "pid": worker.pid,
            "status": status,
            "status_age_s": now - worker.status_at,
            "current_task": running[0] if running else None,
            "current_age_s": age,
            "task_timeout": self.task_timeout,
            "completed": worker.completed,
            "failed": worker.failed,
            "timeouts": worker.timeouts,
            "restarts": worker.restarts,
            "busy_s": busy_s,
            "busy_share": min(1.0, busy_s / max(1e-9, now - self.started_at)),
            "last_duration": worker.last_duration,
            "median_duration": _median(worker.durations),
            "setup_s": worker.setup_s,
            "batch_size": worker.batch_size,
            "log_file": worker.log_file,
            "error": worker.error,
        }


def empty_snapshot() -> dict[str, Any]:
    """What ``get_stats()`` says before the first run."""
    stats = RunStats((), None, None)
    stats.state = "new"
    snapshot = stats.snapshot()
    snapshot.update(start_time=None, elapsed_s=0.0)
    return snapshot


def _median(durations: Iterable[float]) -> float | None:
    """By hand: importing ``statistics`` takes longer than a worker takes to start."""
    ordered = sorted(durations)
    middle = len(ordered) // 2
    if not ordered:
        return None
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
