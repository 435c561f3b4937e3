"""Grouping failures by cause, so that ten thousand equal errors are one line with a count."""

from __future__ import annotations

import re

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any

MOST_CAUSES = 50
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_PID = re.compile(r"\(pid \d+\) ")
_QUOTED = re.compile(r"'[^']{1,200}'|\"[^\"]{1,200}\"")


def cause_of(text: str) -> str:
    """What identical failures have in common: the line that names the exception, without numbers and names in it."""
    line = _telling_line([line for line in text.splitlines() if line.strip()])
    return _NUMBER.sub("#", _QUOTED.sub("'…'", line))[:160]


def _telling_line(lines: list[str]) -> str:
    if not lines:
        return "unknown"
    first = lines[0].strip()
    if first.startswith("WorkerDied:"):
        return _death(first)
    # The exception of a traceback is named after its last frame; what follows may be advice over many lines.
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    if not frames:
        return lines[-1].strip()
    named = (line for line in lines[frames[-1] + 1 :] if not line[0].isspace())
    return next(named, lines[-1]).strip()


def _death(line: str) -> str:
    """How the worker ended; which one it was is not the cause."""
    how = _PID.split(line, maxsplit=1)[-1]
    return f"WorkerDied: {how}" if how != line else line


class FailureCauses:
    def __init__(self) -> None:
        self._causes: dict[str, dict[str, Any]] = {}

    def add(self, task_id: int, text: str) -> None:
        cause = cause_of(text)
        if cause not in self._causes and len(self._causes) >= MOST_CAUSES:
            cause = "other causes"
        known = self._causes.setdefault(
            cause, {"cause": cause, "count": 0, "last_task": task_id, "example": text[:2000]}
        )
        known["count"] += 1
        known["last_task"] = task_id

    def ranked(self) -> list[dict[str, Any]]:
        return sorted((dict(known) for known in list(self._causes.values())), key=lambda k: -int(k["count"]))
