"""Intel devices through sysfs. Only cards with memory of their own are offered to ``"auto"``.

i915 publishes ``lmem_total_bytes`` for those, xe a ``tile0`` folder; integrated ones have neither.
"""

from __future__ import annotations

import os

from gpu_dispatch.devices import sysfs
from gpu_dispatch.devices.model import Device, Vendor
from gpu_dispatch.devices.probes import ABSENT, Findings
from gpu_dispatch.devices.probes.amd import bus_of, cards
from gpu_dispatch.light import replace

INTEGRATED = "integrated graphics: shares the memory of the host"


def probe(root: str = "/") -> Findings:
    found = cards(root, "0x8086")
    if not found:
        return ABSENT
    # Level Zero puts cards with memory of their own first.
    devices = sorted((_read(folder, root) for folder in found), key=lambda device: device.problem is not None)
    return Findings(tuple(replace(device, index=index) for index, device in enumerate(devices)))


def _read(folder: str, root: str) -> Device:
    bus = bus_of(folder)
    local = sysfs.number(os.path.dirname(folder), "lmem_total_bytes")
    discrete = local is not None or "tile0" in sysfs.names(folder)
    return Device(
        Vendor.INTEL,
        0,
        "Intel GPU",
        total_memory=local,
        pci_bus=bus,
        numa_node=sysfs.numa_node(root, bus),
        problem=None if discrete else INTEGRATED,
    )
