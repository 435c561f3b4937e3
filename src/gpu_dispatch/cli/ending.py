"""How a run ended: the words on stderr, the summary for a machine, the exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_dispatch.cli.entry import DONE, FAILED, PROGRAM
from gpu_dispatch.cli.output import STDOUT, JsonLines
from gpu_dispatch.errors import AllWorkersFailed

_CAUSES_SHOWN = 5
_CAUSE_WIDTH = 200
_COUNTS = ("total", "completed", "failed", "timeouts", "cancelled", "retries", "restarts", "setup_failures")


@dataclass(frozen=True, slots=True)
class Ending:
    stats: Mapping[str, Any]
    output: JsonLines
    unreadable: int = 0
    """Rows of the input that never became tasks."""
    setup_failures: tuple[tuple[Any, str], ...] = ()
    interrupted_by: int | None = None
    """The exit code that the signal calls for."""
    gave_up: AllWorkersFailed | None = None

    @property
    def exit_code(self) -> int:
        if self.interrupted_by is not None:
            return self.interrupted_by
        failures = self._count("failed") + self._count("timeouts") + self.unreadable
        return FAILED if self.gave_up is not None or failures else DONE

    def lines(self, *, causes: bool = True) -> Iterator[str]:
        """What happened, and (unless a view has told them) the causes of failures, the most frequent first."""
        if self.gave_up is not None:
            yield from why_no_worker(self.gave_up)
        else:
            for gpu_id, error in self.setup_failures:
                yield f"{PROGRAM}: the worker on device {gpu_id} could not start: {what_was_raised(error)}"
        if self.output.dropped_half_line:
            yield f"{PROGRAM}: the last line of {self.output.path} was cut off and has been removed"
        if self.gave_up is None or self.output.written:
            yield f"{PROGRAM}: {self._totals()}"
        if causes:
            yield from self._causes()

    def as_json(self) -> str:
        summary = {
            "exit_code": self.exit_code,
            **{key: self._count(key) for key in _COUNTS},
            "unreadable": self.unreadable,
            "elapsed_s": self.stats.get("elapsed_s"),
            "throughput": self.stats.get("throughput"),
            "output": self.output.path,
            "errors": list(self.stats.get("errors") or ()),
        }
        return json.dumps(summary, default=str)

    def _totals(self) -> str:
        words = [f"{self._count('completed')} done"]
        for number, word in (
            (self._count("failed"), "failed"),
            (self._count("timeouts"), "timed out"),
            (self.unreadable, "unreadable"),
            (self._count("cancelled"), "not finished"),
        ):
            if number:
                words.append(f"{number} {word}")
        begin = "interrupted: " if self.interrupted_by is not None else ""
        time = f" in {self.stats['elapsed_s']:.1f} s" if self.stats.get("elapsed_s") else ""
        where = "stdout" if self.output.path == STDOUT else self.output.path
        end = f"; results in {where}" if self.output.written else "; no results were written"
        return f"{begin}{', '.join(words)}{time}{end}"

    def _causes(self) -> Iterator[str]:
        groups = list(self.stats.get("errors") or ())
        for group in groups[:_CAUSES_SHOWN]:
            yield f"  {group['count']} × {short(group['cause'])} (last: task {group['last_task']})"
        if len(groups) > _CAUSES_SHOWN:
            yield f"  … and {len(groups) - _CAUSES_SHOWN} more causes"

    def _count(self, key: str) -> int:
        return int(self.stats.get(key) or 0)


def why_no_worker(error: AllWorkersFailed) -> Iterator[str]:
    """The first failure as it was raised; of something that is not installed, only what to do about it."""
    texts = [text for _, text in error.failures] or [str(error)]
    raised = what_was_raised(texts[0])
    if not raised.startswith(("ImportError", "ModuleNotFoundError")):
        yield from (printable(line) for line in texts[0].splitlines())
    yield f"{PROGRAM}: error: {'no worker could start: ' if error.failures else ''}{raised}"


def what_was_raised(error: str) -> str:
    """Of a traceback, the line that names the exception; its message may have more lines, which explain."""
    lines = [line for line in error.splitlines() if line.strip()]
    if not lines:
        return "no reason was given"
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    after_frames = (
        (line for line in lines[frames[-1] + 1 :] if not line.startswith(" ")) if frames else iter(lines[-1:])
    )
    return short(next(after_frames, lines[-1]))


def short(text: str) -> str:
    text = " ".join(printable(text).split())
    return text if len(text) <= _CAUSE_WIDTH else text[: _CAUSE_WIDTH - 1] + "…"


def printable(line: str) -> str:
    """What came from a worker must not move the cursor or rename the window."""
    return "".join(char if char.isprintable() else " " for char in line)
