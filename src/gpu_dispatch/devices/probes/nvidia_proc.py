"""NVIDIA devices through /proc/driver/nvidia: names, UUIDs and buses, when nobody can tell more."""

from __future__ import annotations

from gpu_dispatch.devices import sysfs
from gpu_dispatch.devices.model import Device, Vendor
from gpu_dispatch.devices.probes import ABSENT, Findings

_GPUS = "proc/driver/nvidia/gpus"


def probe(root: str = "/") -> Findings:
    """Every GPU the kernel module drives. It lists them by PCI bus, which is how NVML numbers them."""
    buses = sorted(bus for name in sysfs.names(root, _GPUS) if (bus := sysfs.pci_address(name)) is not None)
    if not buses:
        return ABSENT
    return Findings(tuple(_read(root, bus, index) for index, bus in enumerate(buses)))


def _read(root: str, bus: str, index: int) -> Device:
    lines = (sysfs.text(root, _GPUS, bus, "information") or "").splitlines()
    facts = {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
    uuid = facts.get("GPU UUID", "")
    return Device(
        Vendor.NVIDIA,
        index,
        facts.get("Model") or "NVIDIA GPU",
        # The module writes question marks until the card has been opened for the first time.
        uuid=uuid if uuid.startswith("GPU-") and "?" not in uuid else None,
        pci_bus=bus,
        numa_node=sysfs.numa_node(root, bus),
    )
