"""Whether a slot's device is fit for a new worker: not lost, and free of what the last worker held.

After a SIGKILL the driver takes a while to give memory back; a model loaded too early runs out of memory, fails its
setup, and the slot looks broken when it is not. So the next worker waits until the old one's memory is gone, but not
for ever: somebody else may be holding it.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_dispatch.devices import DeviceMonitor, Grant
from gpu_dispatch.light import dataclass

PATIENCE_S = 10.0
"""How long memory may take to come back. Drivers need well under a second; a process stuck in one needs minutes."""
LOOK_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class Verdict:
    fit: bool
    lost: str | None = None
    """The device is gone: no worker will ever run on it."""
    waiting_for: str | None = None


class DeviceGate:
    def __init__(self, grants: Sequence[Grant], monitor: DeviceMonitor) -> None:
        self._grants = grants
        self._monitor = monitor
        self._dead: dict[int, int] = {}  # slot → pid of its last worker

    def worker_died(self, slot: int, pid: int) -> None:
        self._dead[slot] = pid

    def judge(self, slot: int) -> Verdict:
        """Cheap where no driver answers: then everything is fit."""
        dead = self._dead.get(slot)
        if dead is None:
            return Verdict(True)
        for device in self._grants[slot].physical:
            if self._monitor.is_lost(device):
                return Verdict(False, lost=f"{self._grants[slot].label} is lost: the driver does not reach it any more")
            for process in self._monitor.processes(device) or ():
                if process.pid == dead:
                    held = "" if process.used is None else f" ({process.used / 2**20:.0f} MiB)"
                    return Verdict(False, waiting_for=f"{device} to be free of the dead worker {dead}{held}")
        return Verdict(True)
