"""Reading small files of /sys and /proc. They may be missing, unreadable or odd: then the answer is None."""

from __future__ import annotations

import os
import re

_LISTABLE = re.compile(r"[0-9]+(-[0-9]+)?")


def text(*path: str) -> str | None:
    try:
        with open(os.path.join(*path), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return None


def number(*path: str) -> int | None:
    try:
        return int(text(*path) or "", 0)
    except ValueError:
        return None


def names(*path: str) -> list[str]:
    """The entries of a directory; none when it is not there."""
    try:
        return os.listdir(os.path.join(*path))
    except OSError:
        return []


def cpu_list(content: str | None) -> frozenset[int]:
    """``"0-3,8"`` as the kernel writes sets of cores."""
    cores: set[int] = set()
    for part in (content or "").split(","):
        if _LISTABLE.fullmatch(part.strip()):
            first, _, last = part.strip().partition("-")
            cores.update(range(int(first), int(last or first) + 1))
    return frozenset(cores)


def numa_node(root: str, pci_bus: str | None) -> int | None:
    """The NUMA node a PCI device hangs on. The kernel says -1 when the firmware does not tell."""
    node = number(root, "sys/bus/pci/devices", pci_bus, "numa_node") if pci_bus else None
    return node if node is not None and node >= 0 else None


def pci_address(bus_id: str) -> str | None:
    """NVML's ``00000000:3B:00.0`` as sysfs names it: ``0000:3b:00.0``."""
    parts = re.fullmatch(r"([0-9a-f]+):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", bus_id.strip().lower())
    return f"{int(parts[1], 16):04x}:{parts[2]}:{parts[3]}.{parts[4]}" if parts else None
