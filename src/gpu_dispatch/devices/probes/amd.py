"""AMD devices through sysfs: what amdgpu and its compute part (KFD) publish, readable without root.

The numbers are ROCm's: the GPU nodes of the KFD topology in their order. A card that KFD does not know (too old)
cannot run ROCm and is left out. Without any KFD the cards are listed in their own order, with a note.
"""

from __future__ import annotations

import os
import re

from gpu_dispatch.devices import sysfs
from gpu_dispatch.devices.model import Device, Vendor
from gpu_dispatch.devices.probes import ABSENT, Findings

_DRM = "sys/class/drm"
_KFD = "sys/class/kfd/kfd/topology/nodes"


def cards(root: str, vendor_id: str) -> list[str]:
    """The device folders of this vendor's cards. ``card0-HDMI-A-1`` is a connector, not a card."""
    numbered = sorted((int(m[1]), name) for name in sysfs.names(root, _DRM) if (m := re.fullmatch(r"card(\d+)", name)))
    folders = [os.path.join(root, _DRM, name, "device") for _, name in numbered]
    return [folder for folder in folders if sysfs.text(folder, "vendor") == vendor_id]


def bus_of(folder: str) -> str | None:
    return sysfs.pci_address(os.path.basename(os.path.realpath(folder)))


def probe(root: str = "/") -> Findings:
    found = cards(root, "0x1002")
    if not found:
        return ABSENT
    minors = _compute_minors(root)
    known = sorted((minors.index(minor), folder) for folder in found if (minor := _minor(folder)) in minors)
    if not known:
        note = "AMD: no compute driver (/sys/class/kfd); ROCm will not see the cards"
        return Findings(tuple(_read(folder, index, root) for index, folder in enumerate(found)), (note,))
    notes = () if _may_open(root) else ("AMD: no access to /dev/kfd; is this user in the groups render and video?",)
    return Findings(tuple(_read(folder, index, root) for index, (_, folder) in enumerate(known)), notes)


def _compute_minors(root: str) -> list[int]:
    """The render nodes of the compute GPUs, in ROCm's order. The nodes of CPUs have no SIMD units."""
    minors: list[int] = []
    for node in sorted((name for name in sysfs.names(root, _KFD) if name.isdigit()), key=int):
        lines = (sysfs.text(root, _KFD, node, "properties") or "").splitlines()
        facts = {parts[0]: parts[1] for line in lines if len(parts := line.split()) == 2}
        if facts.get("simd_count", "0") != "0" and facts.get("drm_render_minor", "").isdigit():
            minors.append(int(facts["drm_render_minor"]))
    return minors


def _minor(folder: str) -> int | None:
    nodes = (re.fullmatch(r"renderD(\d+)", name) for name in sysfs.names(folder, "drm"))
    return next((int(node[1]) for node in nodes if node), None)


def _may_open(root: str) -> bool:
    return os.access(os.path.join(root, "dev/kfd"), os.R_OK | os.W_OK)


def _read(folder: str, index: int, root: str) -> Device:
    bus = bus_of(folder)
    unique = sysfs.text(folder, "unique_id")
    sensors = sorted(sysfs.names(folder, "hwmon"))
    hwmon = os.path.join(folder, "hwmon", sensors[0]) if sensors else ""
    millidegrees = sysfs.number(hwmon, "temp1_input") if hwmon else None
    microwatts = sysfs.number(hwmon, "power1_average") if hwmon else None
    return Device(
        Vendor.AMD,
        index,
        sysfs.text(folder, "product_name") or "AMD GPU",
        uuid=f"GPU-{unique}" if unique else None,
        total_memory=sysfs.number(folder, "mem_info_vram_total"),
        used_memory=sysfs.number(folder, "mem_info_vram_used"),
        utilisation=sysfs.number(folder, "gpu_busy_percent"),
        pci_bus=bus,
        numa_node=sysfs.numa_node(root, bus),
        temperature_c=millidegrees // 1000 if millidegrees is not None else None,
        power_w=microwatts / 1e6 if microwatts is not None else None,
    )
