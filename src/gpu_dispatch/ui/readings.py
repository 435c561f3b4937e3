"""What the views show besides the run's own statistics: this process's memory, the devices' load.

Read at most once a second: none of it changes faster, and each read is a system call or a question to a driver.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpu_dispatch.devices import Device, DeviceMonitor

_READ_EVERY_S = 1.0


class Readings:
    """``devices()``: what each worker runs on at the moment; nothing where the device is not known on this machine."""

    def __init__(self, devices: Callable[[], Mapping[int, Sequence[Device]]]) -> None:
        self._devices = devices
        self._monitor = DeviceMonitor()
        self._read_at = float("-inf")
        self._extra: dict[str, Any] = {}

    def added_to(self, stats: Mapping[str, Any]) -> dict[str, Any]:
        """The snapshot with ``rss_bytes`` and ``devices`` (worker id → load), where they are known."""
        now = time.monotonic()
        if now - self._read_at >= _READ_EVERY_S:
            self._read_at = now
            loads = {worker_id: self._load(found) for worker_id, found in self._devices().items()}
            self._extra = {
                "rss_bytes": resident_memory(),
                "devices": {worker_id: load for worker_id, load in loads.items() if load},
            }
        return {**stats, **self._extra}

    def close(self) -> None:
        self._monitor.close()

    def _load(self, devices: Sequence[Device]) -> dict[str, float]:
        """Of several devices the mean utilisation and the sum of the memory."""
        utilisations = [u for u in map(self._monitor.utilisation, devices) if u is not None]
        memories = [m for m in map(self._monitor.memory, devices) if m is not None]
        load: dict[str, float] = {}
        if utilisations:
            load["utilisation"] = sum(utilisations) / len(utilisations) / 100
        if memories:
            load["memory_used"] = sum(used for used, _ in memories)
            load["memory_total"] = sum(total for _, total in memories)
        return load


def resident_memory() -> int | None:
    """Bytes of this process in memory; ``None`` where /proc does not tell."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
