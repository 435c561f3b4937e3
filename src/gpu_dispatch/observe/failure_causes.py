"""Grouping failures by cause, so that ten thousand equal errors are one line with a count."""

from __future__ import annotations

import re
from typing import Any

MOST_CAUSES = 50
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_QUOTED = re.compile(r"'[^']{1,200}'|\"[^\"]{1,200}\"")


def cause_of(text: str) -> str:
    """What identical failures have in common: the line that names the exception, without numbers and names in it."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if not lines:
        return "unknown"
    line = lines[0] if lines[0].startswith("WorkerDied:") else lines[-1]
    return _NUMBER.sub("#", _QUOTED.sub("'…'", line))[:160]


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
