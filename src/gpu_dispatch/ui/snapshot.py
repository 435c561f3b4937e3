"""Questions that several views ask a stats snapshot. Text and numbers only: nothing here needs Rich."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_dispatch.ui.formatting import count
from gpu_dispatch.ui.sanitise import one_line

Snapshot = Mapping[str, Any]
Worker = Mapping[str, Any]

_NEAR_LIMIT = 0.8  # of the timeout: early enough to be seen before it strikes, late enough to mean something


def settled(snapshot: Snapshot) -> int:
    """Tasks that were tried to the end. Cancelled ones were not: no progress bar shall grow by an interruption."""
    return sum(int(snapshot.get(key) or 0) for key in ("completed", "failed", "timeouts"))


def share_done(snapshot: Snapshot) -> float | None:
    """How much of the input is done with, when its length is known."""
    expected = snapshot.get("expected_total")
    if expected is None:
        return None
    return min(1.0, settled(snapshot) / expected) if expected else 1.0


def totals(snapshot: Snapshot) -> list[str]:
    """The totals as words that add up to the number of tasks that were pulled."""
    crashed = snapshot.get("crashed") or 0
    words = [f"{count(snapshot.get('completed') or 0)} done"]
    if snapshot.get("failed"):
        words.append(f"{count(snapshot['failed'])} failed" + (f" ({count(crashed)} crashed)" if crashed else ""))
    for key, word in (("timeouts", "timed out"), ("cancelled", "cancelled"), ("pending", "unsettled")):
        if snapshot.get(key):
            words.append(f"{count(snapshot[key])} {word}")
    return words


def label(worker: Worker) -> str:
    """The GPU's id; with several workers on one GPU, the worker's number after it."""
    gpu_id, worker_id = worker.get("gpu_id"), worker.get("worker_id")
    return one_line(gpu_id if gpu_id == worker_id or worker_id is None else f"{gpu_id}#{worker_id}")


def near_limit(worker: Worker) -> bool:
    """Whether the running task has used up most of its time."""
    age, limit = worker.get("current_age_s"), worker.get("task_timeout")
    return age is not None and limit is not None and bool(age >= _NEAR_LIMIT * limit)


def last_words(error: object) -> str:
    """Of a traceback the line that names the exception; of any other text its first line."""
    text = str(error)
    is_traceback = "Traceback" in text[:200]
    lines = [line for line in (text[-4000:] if is_traceback else text[:4000]).splitlines() if line.strip()]
    if not lines:
        return ""
    return one_line(lines[-1] if is_traceback else lines[0])
