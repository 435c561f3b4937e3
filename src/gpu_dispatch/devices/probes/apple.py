"""The GPU of an Apple-silicon machine, which PyTorch calls ``mps``. There is one, and it shares the host's memory."""

from __future__ import annotations

import os
import sys

from gpu_dispatch.devices.model import Device, Vendor
from gpu_dispatch.devices.probes import ABSENT, Findings


def probe(platform: str | None = None, machine: str | None = None) -> Findings:
    if (platform or sys.platform) != "darwin" or (machine or os.uname().machine) != "arm64":
        return ABSENT
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Findings((Device(Vendor.APPLE, 0, "Apple GPU", total_memory=memory),))
