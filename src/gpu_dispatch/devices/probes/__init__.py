"""Where knowledge about devices comes from: one file per source.

    nvml          NVIDIA through its management library (needs nvidia-ml-py)
    nvidia_smi    NVIDIA through the command, when the bindings are not installed
    nvidia_proc   NVIDIA through /proc: names and UUIDs, no memory
    amd, intel    sysfs, without root or vendor libraries
    apple         the one GPU of an Apple-silicon machine

Each has ``probe(...) -> Findings``. A probe never raises because a driver is broken: it says so in a note. Each
starts with a check that costs microseconds, so that a machine without GPUs pays next to nothing.
"""

from __future__ import annotations

from gpu_dispatch.devices.model import Device
from gpu_dispatch.light import dataclass


@dataclass(frozen=True, slots=True)
class Findings:
    """What one source found. ``answered`` is False when the source is not there, and another should be asked."""

    devices: tuple[Device, ...] = ()
    notes: tuple[str, ...] = ()
    answered: bool = True


ABSENT = Findings(answered=False)
