"""The work of the loads that need nothing but Python. Imported by name in every system's workers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any


def nothing(number: int) -> int:
    return number


def label(record: dict[str, Any]) -> dict[str, Any]:
    """A record in, a record of about the same size out."""
    return {**record, "label": "speech", "score": 0.875}


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def sleep_and_say_when(item: tuple[int, float]) -> tuple[int, float, float, int]:
    """(number, started, ended, process): the monotonic clock is the same in every process of a machine."""
    number, seconds = item
    started_at = time.monotonic()
    time.sleep(seconds)
    return number, started_at, time.monotonic(), os.getpid()


def warm(work: Callable[[Any], Any]) -> None:
    """Long enough that every worker gets one. ``work`` travels along so that its module is imported by then."""
    time.sleep(0.05)
