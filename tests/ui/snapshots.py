"""Hand-made stats snapshots, in the form that ``Dispatcher.get_stats()`` returns."""

from __future__ import annotations

from typing import Any


def worker(worker_id: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "worker_id": worker_id,
        "gpu_id": worker_id,
        "device": "cpu",
        "pid": 4000 + worker_id,
        "status": "processing",
        "current_task": 6120 + worker_id,
        "current_age_s": 0.21,
        "task_timeout": 30.0,
        "completed": 1510 + worker_id,
        "failed": 3,
        "timeouts": 1,
        "restarts": 0,
        "busy_s": 80.0,
        "busy_share": 0.97,
        "last_duration": 0.052,
        "median_duration": 0.049,
        "setup_s": 1.6,
        "status_age_s": 0.21,
        "batch_size": None,
        "log_file": None,
        "error": None,
        **changes,
    }


def snapshot(*, workers: int = 4, **changes: Any) -> dict[str, Any]:
    return {
        "state": "running",
        "total": 6400,
        "pending": 264,
        "completed": 6120,
        "failed": 12,
        "timeouts": 4,
        "cancelled": 0,
        "crashed": 1,
        "retries": 2,
        "restarts": 1,
        "setup_failures": 0,
        "cleanup_failures": 0,
        "expected_total": 10_000,
        "queue_depth": 256,
        "in_flight": 8,
        "start_time": 1_700_000_000.0,
        "end_time": None,
        "elapsed_s": 83.4,
        "throughput": 73.5,
        "throughput_recent": 76.0,
        "throughput_history": [0, 10, 40, 60, 72, 75, 76, 74, 71, 76],
        "eta_s": (48.0, 51.0, 57.0),
        "gpu_status": {i: worker(i) for i in range(workers)},
        "errors": [
            {"cause": "ValueError: cannot identify image", "count": 11, "last_task": 6001, "example": "Traceback …"},
            {"cause": "killed by SIGKILL", "count": 1, "last_task": 311, "example": "…"},
        ],
        "slowest": [
            {"task_id": 77, "worker_id": 1, "duration_s": 4.2},
            {"task_id": 9, "worker_id": 0, "duration_s": 2},
        ],
        "output": [(0, "loaded the weights"), (1, "loaded the weights"), (1, "warm-up done")],
        "log_dir": None,
        "rss_bytes": 84_300_000,
        **changes,
    }


def many_workers(number: int) -> dict[int, dict[str, Any]]:
    """Mostly busy, with two in trouble and one close to its limit, none of them at the beginning."""
    workers = {i: worker(i, busy_share=0.5 + (i % 5) / 10) for i in range(number)}
    workers[number // 2].update(status="out of service", error="RuntimeError: GPU is lost", current_task=None)
    workers[number - 1].update(status="restarting", error="killed by SIGKILL", current_task=None, current_age_s=None)
    workers[number - 2].update(current_age_s=29.0)
    workers[3].update(status="idle", current_task=None, current_age_s=None, busy_share=0.1)
    return workers
