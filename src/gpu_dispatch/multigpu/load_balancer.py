"""What became of the files, and how fast: counted from the results as they come.

- *RTF*, the real-time factor: seconds of work per second of audio, by the clock on the wall; 0.05 is twenty times
  faster than listening.
- *Speed-up*: the time on all devices together over the time on the wall, or how much longer one GPU would have taken.
"""

from __future__ import annotations

import queue
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_dispatch.multigpu.summary import progress_line, summary_lines
from gpu_dispatch.transcription.job import FileResult

ProgressCallback = Callable[[int, int, FileResult], Any]


@dataclass(slots=True)
class _Share:
    """What one GPU has done."""

    files: int = 0
    failed: int = 0
    audio_s: float = 0.0
    busy_s: float = 0.0


class LoadBalancer:
    def __init__(self, gpu_ids: Sequence[int | str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._shares: dict[int | str, _Share] = {gpu_id: _Share() for gpu_id in gpu_ids}
        self._clock = clock
        self._started_at: float | None = None
        self._ended_at: float | None = None
        # Only sums are kept of successes: a run over a million files must not keep a million results.
        self._done = 0
        self._completed = 0
        self._cancelled = 0
        self._audio_s = 0.0
        self._languages: Counter[str] = Counter()
        self._failures: list[dict[str, str]] = []
        self._warnings: list[dict[str, str]] = []
        self.skipped = 0
        """Files that were already done, for the summary; whoever found that out sets it."""

    def monitor_progress(
        self, result_queue: Any, total_files: int, progress_callback: ProgressCallback | None = None
    ) -> None:
        """Take FileResults from the queue until there are ``total_files``; after each, call back with
        (how many so far, of how many, the result)."""
        self.start()
        while self._done < total_files:
            result = result_queue.get()
            self.add(result)
            if progress_callback is not None:
                progress_callback(self._done, total_files, result)

    def count_rest(self, result_queue: Any) -> None:
        """Count what is in the queue, without waiting for more: after the end of a run that was cut short."""
        while True:
            try:
                self.add(result_queue.get_nowait())
            except queue.Empty:
                return

    def start(self) -> None:
        """The clock runs from here; ``monitor_progress`` does it."""
        if self._started_at is None:
            self._started_at = self._clock()

    def add(self, result: FileResult) -> None:
        """Count one result; for those who do not monitor a queue."""
        self.start()
        self._ended_at = self._clock()
        self._done += 1
        self._completed += result.ok
        self._cancelled += result.cancelled
        self._audio_s += result.audio_s
        if result.language is not None:
            self._languages[result.language] += 1
        if result.error is not None and not result.cancelled:
            self._failures.append({"file": result.file, "error": result.error})
        self._warnings += [{"file": result.file, "warning": warning} for warning in result.warnings]
        if result.gpu_id is not None:
            share = self._shares.setdefault(result.gpu_id, _Share())
            share.files += result.ok
            share.failed += not result.ok
            share.audio_s += result.audio_s
            share.busy_s += result.processing_s

    def print_progress(self, done: int, total: int, result: FileResult) -> None:
        """A line on stderr; on a terminal, successes overwrite each other. Files that were not tried have none."""
        if result.cancelled:
            return
        line = progress_line(done, total, result)
        if sys.stderr.isatty():
            print(f"\r\x1b[K{line}", end="" if result.ok and done < total else "\n", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    # --- figures --------------------------------------------------------------------------------------------

    def get_overall_rtf(self) -> float:
        """0.0 when nothing was transcribed."""
        return self._wall_s / self._audio_s if self._audio_s else 0.0

    def get_speedup(self) -> float:
        """0.0 when nothing was transcribed."""
        busy_s = sum(share.busy_s for share in self._shares.values())
        return busy_s / self._wall_s if self._wall_s else 0.0

    def get_per_gpu_stats(self) -> dict[int | str, dict[str, Any]]:
        return {
            gpu_id: {
                "files": share.files,
                "failed": share.failed,
                "audio_s": round(share.audio_s, 3),
                "busy_s": round(share.busy_s, 3),
                "rtf": share.busy_s / share.audio_s if share.audio_s else 0.0,
                "busy_share": min(1.0, share.busy_s / self._wall_s) if self._wall_s else 0.0,
            }
            for gpu_id, share in self._shares.items()
        }

    def get_summary_stats(self) -> dict[str, Any]:
        return {
            "completed": self._completed,
            "failed": len(self._failures),
            "cancelled": self._cancelled,
            "skipped": self.skipped,
            "audio_s": round(self._audio_s, 3),
            "audio_hours": self._audio_s / 3600,
            "wall_s": round(self._wall_s, 3),
            "rtf": self.get_overall_rtf(),
            "speedup": self.get_speedup(),
            "languages": dict(self._languages),
            "gpus": self.get_per_gpu_stats(),
            "failures": list(self._failures),
            "warnings": list(self._warnings),
        }

    def print_summary(self, total_files: int) -> None:
        """On stdout."""
        for line in summary_lines(self.get_summary_stats(), total_files):
            print(line)

    def get_exit_code(self) -> int:
        """0 when every file that came was transcribed, 1 otherwise."""
        return 0 if self._completed == self._done else 1

    @property
    def _wall_s(self) -> float:
        if self._started_at is None or self._ended_at is None:
            return 0.0
        return self._ended_at - self._started_at
