"""NVIDIA devices through NVML, with the ``nvidia-ml-py`` bindings."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

from gpu_dispatch.devices import sysfs
from gpu_dispatch.devices.model import Device, Vendor
from gpu_dispatch.devices.probes import ABSENT, Findings
from gpu_dispatch.light import replace

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")


def bindings() -> Any | None:
    """The pynvml module, when both it and the driver's library are here; else None."""
    if "pynvml" not in sys.modules:
        # Importing the bindings takes some 40 ms, finding out that there is no driver library below 1 ms.
        try:
            ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return None
    try:
        import pynvml
    except Exception:  # whatever a broken installation raises, it means that we cannot ask
        return None
    return pynvml


def probe(root: str = "/") -> Findings:
    """Every NVIDIA GPU and MIG instance, by PCI order."""
    nvml = bindings()
    if nvml is None:
        return ABSENT
    try:
        nvml.nvmlInit()
    except nvml.NVMLError_LibraryNotFound:
        return ABSENT
    except nvml.NVMLError as error:
        return Findings(notes=(f"NVIDIA driver: {error}",))
    try:
        return _all_devices(nvml, root)
    except nvml.NVMLError as error:
        return Findings(notes=(f"NVIDIA driver: {error}",))
    finally:
        nvml.nvmlShutdown()


def _all_devices(nvml: Any, root: str) -> Findings:
    devices: list[Device] = []
    notes: list[str] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            gpu = _describe(nvml, handle, index, root)
        except nvml.NVMLError as error:
            problem = "lost" if isinstance(error, nvml.NVMLError_GpuIsLost) else str(error)
            notes.append(f"GPU {index}: {problem}")
            devices.append(Device(Vendor.NVIDIA, index, "NVIDIA GPU", problem=problem))
            continue
        devices += _with_instances(nvml, handle, gpu)
    return Findings(tuple(devices), tuple(notes))


def _describe(nvml: Any, handle: Any, index: int, root: str) -> Device:
    """A device; raises NVMLError if it does not even tell its UUID (a lost one answers nothing)."""
    uuid = _text(nvml.nvmlDeviceGetUUID(handle))
    memory = attempt(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    rates = attempt(nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
    pci = attempt(nvml, lambda: nvml.nvmlDeviceGetPciInfo(handle))
    milliwatts = attempt(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(handle))
    pci_bus = sysfs.pci_address(_text(pci.busId)) if pci is not None else None
    return Device(
        Vendor.NVIDIA,
        index,
        _text(attempt(nvml, lambda: nvml.nvmlDeviceGetName(handle)) or "NVIDIA GPU"),
        uuid=uuid,
        total_memory=int(memory.total) if memory is not None else None,
        used_memory=int(memory.used) if memory is not None else None,
        utilisation=int(rates.gpu) if rates is not None else None,
        pci_bus=pci_bus,
        numa_node=sysfs.numa_node(root, pci_bus),
        temperature_c=attempt(nvml, lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        power_w=milliwatts / 1000 if milliwatts is not None else None,
    )


def _with_instances(nvml: Any, handle: Any, gpu: Device) -> list[Device]:
    """The GPU; in MIG mode, followed by its instances."""
    mode = attempt(nvml, lambda: nvml.nvmlDeviceGetMigMode(handle))
    if mode is None or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return [gpu]
    instances: list[Device] = []
    for place in range(attempt(nvml, lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0):
        instance = attempt(nvml, lambda place=place: _describe_instance(nvml, handle, place, gpu))  # type: ignore[misc]
        if instance is not None:
            instances.append(instance)
    problem = "in MIG mode: its instances are used instead" if instances else "in MIG mode, but has no instance"
    return [replace(gpu, problem=problem), *instances]


def _describe_instance(nvml: Any, gpu_handle: Any, place: int, gpu: Device) -> Device:
    handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu_handle, place)
    memory = attempt(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    slice_id = attempt(nvml, lambda: nvml.nvmlDeviceGetGpuInstanceId(handle))
    compute_id = attempt(nvml, lambda: nvml.nvmlDeviceGetComputeInstanceId(handle))
    return Device(
        Vendor.NVIDIA,
        gpu.index,
        _text(attempt(nvml, lambda: nvml.nvmlDeviceGetName(handle)) or gpu.name),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        total_memory=int(memory.total) if memory is not None else None,
        used_memory=int(memory.used) if memory is not None else None,
        pci_bus=gpu.pci_bus,
        numa_node=gpu.numa_node,
        mig_parent=gpu.uuid,
        mig_instance=f"{slice_id}/{compute_id}" if slice_id is not None and compute_id is not None else None,
    )


def attempt(nvml: Any, ask: Callable[[], T]) -> T | None:
    """The answer, or None: many cards do not know their power or utilisation, old drivers lack functions."""
    try:
        return ask()
    except nvml.NVMLError_GpuIsLost:
        raise
    except nvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value  # old bindings answer in bytes
