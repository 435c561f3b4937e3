"""Memory, utilisation and health of devices while a run goes on.

NVIDIA is asked through NVML, AMD through sysfs. Every answer may be None: not known here. Nothing is started or
loaded before the first question, and no question raises. Safe from any thread.

Not here: nvidia-smi. It takes a process per question, which is too much to watch with.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from gpu_dispatch.devices import sysfs
from gpu_dispatch.devices.model import Device, Vendor
from gpu_dispatch.devices.probes import nvml as nvml_probe
from gpu_dispatch.light import dataclass

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """What one process holds of a device. In a container the pid may be the host's, which is not ours to read."""

    pid: int
    used: int | None


class DeviceMonitor:
    """Ask it whenever you like; ``close()`` it when the run is over, or use it in a ``with``."""

    def __init__(self, *, root: str = "/") -> None:
        self._root = root
        self._lock = threading.Lock()
        self._nvml: Any | None = None
        self._tried = False
        self._handles: dict[tuple[int, str | None], Any] = {}

    def memory(self, device: Device) -> tuple[int, int] | None:
        """(used, total) in bytes."""
        if device.vendor is Vendor.AMD:
            used, total = self._amd(device, "mem_info_vram_used"), self._amd(device, "mem_info_vram_total")
            return (used, total) if used is not None and total is not None else None
        answer = self._ask(device, lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle))
        return (int(answer.used), int(answer.total)) if answer is not None else None

    def utilisation(self, device: Device) -> int | None:
        """Per cent of the last moments in which the device did anything. MIG instances do not tell."""
        if device.vendor is Vendor.AMD:
            return self._amd(device, "gpu_busy_percent")
        return self._ask(device, lambda nvml, handle: int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu))

    def processes(self, device: Device) -> tuple[ProcessMemory, ...] | None:
        """Who holds memory of the device."""
        return self._ask(
            device,
            lambda nvml, handle: tuple(
                ProcessMemory(int(process.pid), process.usedGpuMemory)
                for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            ),
        )

    def is_lost(self, device: Device) -> bool:
        """Whether the driver says that the device has fallen off the bus, or is gone. False when nobody can tell."""
        nvml = self._library(device)
        if nvml is None:
            return False
        try:
            nvml.nvmlDeviceGetMemoryInfo(self._handle(nvml, device))
        except (nvml.NVMLError_GpuIsLost, nvml.NVMLError_NotFound):
            return True
        except nvml.NVMLError:
            pass
        return False

    def close(self) -> None:
        with self._lock:
            nvml, self._nvml, self._tried = self._nvml, None, False
            self._handles.clear()
            if nvml is not None:
                try:
                    nvml.nvmlShutdown()
                except nvml.NVMLError:
                    pass

    def __enter__(self) -> DeviceMonitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, device: Device, question: Callable[[Any, Any], T]) -> T | None:
        nvml = self._library(device)
        if nvml is None:
            return None
        try:
            return question(nvml, self._handle(nvml, device))
        except nvml.NVMLError:
            return None

    def _library(self, device: Device) -> Any | None:
        """NVML, opened on the first question about an NVIDIA device."""
        if device.vendor is not Vendor.NVIDIA:
            return None
        with self._lock:
            if not self._tried:
                self._tried = True
                nvml = nvml_probe.bindings()
                if nvml is not None:
                    try:
                        nvml.nvmlInit()
                        self._nvml = nvml
                    except nvml.NVMLError:
                        pass
            return self._nvml

    def _handle(self, nvml: Any, device: Device) -> Any:
        key = (device.index, device.uuid)
        handle = self._handles.get(key)
        if handle is None:
            # By UUID, since a number may mean another card after one has been lost.
            if device.uuid is not None:
                handle = nvml.nvmlDeviceGetHandleByUUID(device.uuid)
            else:
                handle = nvml.nvmlDeviceGetHandleByIndex(device.index)
            self._handles[key] = handle
        return handle

    def _amd(self, device: Device, fact: str) -> int | None:
        if device.pci_bus is None:
            return None
        return sysfs.number(os.path.join(self._root, "sys/bus/pci/devices", device.pci_bus), fact)
