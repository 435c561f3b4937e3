"""What the views show besides the run's own statistics: this process's memory, the devices' load.

Read at most once a second: none of it changes faster, and each read is a system call or a question to a driver.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

_READ_EVERY_S = 1.0


class Readings:
    def __init__(self, gpu_ids: Any) -> None:
        self._gpu_ids = gpu_ids
        self._read_at = float("-inf")
        self._extra: dict[str, Any] = {}

    def added_to(self, stats: Mapping[str, Any]) -> dict[str, Any]:
        """The snapshot with ``rss_bytes`` and ``devices`` (worker id → utilisation, memory), where they are known."""
        now = time.monotonic()
        if now - self._read_at >= _READ_EVERY_S:
            self._read_at = now
            self._extra = {"rss_bytes": resident_memory(), "devices": {}}
        return {**stats, **self._extra}


def resident_memory() -> int | None:
    """Bytes of this process in memory; ``None`` where /proc does not tell."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
