"""What a device is, and what one worker slot is given of it.

``Device`` is a fact about the machine; ``Grant`` is a decision: the devices, the environment and the cores that one
worker gets. Both are plain values: they pickle, compare, and know nothing of drivers.

Not here: finding devices (probes/, survey.py), reading masks (masks.py), making grants (grants.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from gpu_dispatch.light import dataclass, field


class Vendor(str, Enum):
    """Whose driver speaks for the device. The order is the order of preference on a machine with several."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"
    APPLE = "apple"


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator, or one MIG instance of one, as found at the moment of asking. ``None`` means not known."""

    vendor: Vendor
    index: int
    """The vendor's number: NVML and PCI order for NVIDIA, ROCm's for AMD. A MIG instance has its GPU's number."""
    name: str
    uuid: str | None = None
    total_memory: int | None = None
    """Bytes, as are all memories here."""
    used_memory: int | None = None
    utilisation: int | None = None
    """Per cent."""
    pci_bus: str | None = None
    """As sysfs writes it: ``0000:3b:00.0``."""
    numa_node: int | None = None
    mig_parent: str | None = None
    """For a MIG instance, the UUID of the GPU it is a part of."""
    mig_instance: str | None = None
    """For a MIG instance, ``"<gpu instance>/<compute instance>"``, as the older names of such devices spell it."""
    temperature_c: int | None = None
    power_w: float | None = None
    problem: str | None = None
    """Why ``"auto"`` passes it over (``"lost"``, in MIG mode, integrated graphics); ``None`` when it is fit for use."""

    def __str__(self) -> str:
        kind = "MIG instance of GPU" if self.mig_parent else "GPU"
        identity = f", {shortened(self.uuid)}" if self.uuid else ""
        return f"{kind} {self.index} ({self.name}{identity})"


@dataclass(frozen=True, slots=True)
class Grant:
    """What one worker slot gets."""

    gpu_id: int | str
    """The id the user asked for; it goes to ``setup()``. The first one, where a worker has several GPUs."""
    device: str
    """What user code uses inside the worker: ``"cuda:0"``, ``"xpu:0"``, ``"mps"`` or ``"cpu"``."""
    label: str
    """For messages: ``"GPU 2 (NVIDIA A100, GPU-ab12…)"``."""
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Changes to the worker's environment, to be made before it starts."""
    cpus: frozenset[int] | None = None
    """The cores next to the device, where sysfs tells them and they are not simply all there are."""
    physical: tuple[Device, ...] = ()
    """The devices behind it; empty when the id is not known on this machine."""


def shortened(uuid: str) -> str:
    """Enough of a UUID for a person to recognise it: ``GPU-ab12cd34…``."""
    head, dash, rest = uuid.partition("-")
    return f"{head}{dash}{rest[:8]}…" if len(rest) > 9 else uuid
