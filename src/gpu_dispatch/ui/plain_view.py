"""The plain view: a line every few seconds, for pipes, log files and terminals without cursor movement.

    [gpu_dispatch 0:00:02] ready: GPU 0 (setup 1.6s), GPU 1 (setup 1.7s)
    [gpu_dispatch 0:00:05] running: 512/10,000 (5%), 509 done, 3 failed, 102/s, ETA 0:01:32; 3 processing, 1 idle

Nothing here needs Rich.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import IO

from gpu_dispatch.ui.formatting import clock, count, duration, percent, rate
from gpu_dispatch.ui.sanitise import one_line
from gpu_dispatch.ui.snapshot import Snapshot, label, last_words, settled, share_done, totals

_NEWS_EVERY_S = 1.0  # changes of workers are told soon, but never as a flood
_LINE_EVERY_S = 5.0
_QUIET_LINE_EVERY_S = 30.0  # nothing has changed: seldom enough for a log, often enough to show that it lives


class PlainView:
    """``ending(snapshot)`` is the text written last; one sentence unless told otherwise."""

    def __init__(
        self,
        stream: IO[str],
        ending: Callable[[Snapshot], str] | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._ending = ending or (lambda snapshot: f"{_head(snapshot)} {sentence(snapshot)}")
        self._now = now
        self._known: dict[object, tuple[object, ...]] = {}
        self._told: tuple[object, ...] = (None,)
        self._told_at = float("-inf")
        self._news_at = float("-inf")

    def open(self) -> None:
        """Nothing to take hold of."""

    def show(self, snapshot: Snapshot) -> None:
        now = self._now()
        if now - self._news_at >= _NEWS_EVERY_S:
            for line in self._news(snapshot):
                self._news_at = now
                self._write(f"{_head(snapshot)} {line}")
        state = (snapshot.get("state"), settled(snapshot), snapshot.get("restarts"))
        is_new_state = state[0] != self._told[0]
        wait_s = _LINE_EVERY_S if state != self._told else _QUIET_LINE_EVERY_S
        if snapshot.get("state") != "new" and (is_new_state or now - self._told_at >= wait_s):
            self._told, self._told_at = state, now
            self._write(f"{_head(snapshot)} {progress_line(snapshot)}")

    def close(self, snapshot: Snapshot | None) -> None:
        if snapshot is not None:
            self._write(self._ending(snapshot))

    def _news(self, snapshot: Snapshot) -> list[str]:
        """What has changed among the workers since the last time, one line per kind."""
        ready: list[str] = []
        troubled: list[str] = []
        for worker_id, worker in (snapshot.get("gpu_status") or {}).items():
            status, setup_s = worker.get("status"), worker.get("setup_s")
            in_trouble = status in ("error", "restarting", "out of service")
            known = (setup_s, status if in_trouble else None)
            before = self._known.get(worker_id, (None, None))
            self._known[worker_id] = known
            if known[0] is not None and known[0] != before[0]:
                ready.append(f"GPU {label(worker)} (setup {duration(setup_s)})")
            if in_trouble and known[1] != before[1]:
                why = f": {last_words(worker['error'])[:200]}" if worker.get("error") else ""
                troubled.append(f"GPU {label(worker)} {status}{why}")
        return ([f"ready: {', '.join(ready)}"] if ready else []) + troubled

    def _write(self, text: str) -> None:
        self._stream.write(encodable(text, self._stream) + "\n")
        self._stream.flush()


def progress_line(snapshot: Snapshot) -> str:
    done, share = settled(snapshot), share_done(snapshot)
    words = [f"{count(done)}/{count(snapshot['expected_total'])} ({percent(share)})"] if share is not None else []
    words += totals({**snapshot, "pending": 0})
    words.append(rate(snapshot.get("throughput_recent") or snapshot.get("throughput")))
    if snapshot.get("eta_s") and snapshot.get("state") == "running":
        words.append(f"ETA {clock(snapshot['eta_s'][1])}")
    line = f"{snapshot.get('state')}: {', '.join(words)}"
    workers = list((snapshot.get("gpu_status") or {}).values())
    kinds = Counter(one_line(worker.get("status")) for worker in workers)
    statuses = [f"{number} {status}" for status, number in kinds.most_common() if status != "initializing"]
    waiting = [w.get("status_age_s") or 0.0 for w in workers if w.get("status") == "initializing"]
    if waiting:
        statuses.append(f"{len(waiting)} initializing for {duration(max(waiting))}")
    return f"{line}; {', '.join(statuses)}" if statuses else line


def sentence(snapshot: Snapshot) -> str:
    """How it ended, in one sentence."""
    speed = rate(snapshot.get("throughput"))
    logs = f"; worker logs: {one_line(snapshot['log_dir'])}" if snapshot.get("log_dir") else ""
    return f"{snapshot.get('state') or 'ended'}: {', '.join(totals(snapshot))}, {speed}{logs}"


def encodable(text: str, stream: IO[str]) -> str:
    """The text without characters that the stream has no bytes for."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def _head(snapshot: Snapshot) -> str:
    return f"[gpu_dispatch {clock(snapshot.get('elapsed_s') or 0)}]"
