"""Which GPUs are here. All knowledge is ``gpu_dispatch.devices``'s; this gives it the launcher's shape."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_dispatch import devices
from gpu_dispatch.devices import Device, Inventory, Vendor
from gpu_dispatch.errors import DeviceSpecError

GpuId = int | str


class GPUDetector:
    """``environ`` is where masks such as CUDA_VISIBLE_DEVICES are looked up; they are respected."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ

    def get_available_gpus(self) -> list[GpuId]:
        """The ids of the GPUs that may be used: numbers; UUIDs for MIG instances. Empty when there are none."""
        view = self._inventory().primary
        return [] if view is None else [entry.token if entry.id is None else entry.id for entry in view.usable]

    def is_cuda_available(self) -> bool:
        return any(device.vendor is Vendor.NVIDIA for device in self._inventory().usable)

    def validate_gpus(self, gpu_ids: Sequence[GpuId]) -> tuple[bool, str | None]:
        """Whether each of them is here and usable; if not, why."""
        try:
            grants = devices.resolve(gpu_ids, self._environ)
        except DeviceSpecError as error:
            return False, str(error)
        missing = [str(grant.gpu_id) for grant in grants if not grant.physical]
        if missing:
            here = ", ".join(map(str, self.get_available_gpus())) or "none"
            plural = "s" if len(missing) > 1 else ""
            return False, f"GPU{plural} {', '.join(missing)} not found on this machine; available: {here}"
        return True, None

    def parse_gpu_list(self, spec: str) -> list[GpuId]:
        """``"auto"`` (all that may be used; none is no error) or ``"0,1,2"``, ``"0,2-5"``, UUIDs.

        Raises ValueError, with the reason, when it cannot be understood or names a GPU that is not here although others
        are.
        """
        if spec.strip().lower() == "auto":
            return self.get_available_gpus()
        if spec.strip().lower().startswith("cpu"):
            raise DeviceSpecError(f"{spec!r} names no GPU; give it to the launcher as it is")
        return [grant.gpu_id for grant in devices.resolve(spec, self._environ)]

    def get_gpu_info(self, gpu_id: GpuId) -> dict[str, Any]:
        """What is known about one GPU; what is not is ``None``. Raises ValueError when it is not here."""
        view = self._inventory().primary
        for entry in view.usable if view is not None else ():
            if entry.device is not None and gpu_id in (entry.id, entry.token, entry.device.uuid):
                return _described(gpu_id, entry.device)
        here = ", ".join(map(str, self.get_available_gpus())) or "none"
        raise DeviceSpecError(f"there is no GPU {gpu_id}; available: {here}")

    def _inventory(self) -> Inventory:
        return devices.inventory(self._environ)


def _described(gpu_id: GpuId, device: Device) -> dict[str, Any]:
    total, used = device.total_memory, device.used_memory
    return {
        "id": gpu_id,
        "name": device.name,
        "total_memory": total,
        "used_memory": used,
        "free_memory": total - used if total is not None and used is not None else None,
        "utilisation": device.utilisation,
        "uuid": device.uuid,
        "vendor": device.vendor.value,
        "index": device.index,
        "pci_bus": device.pci_bus,
    }
