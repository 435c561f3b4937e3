"""NVIDIA devices through the ``nvidia-smi`` command, for machines without the NVML bindings."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gpu_dispatch.devices import sysfs
from gpu_dispatch.devices.model import Device, Vendor
from gpu_dispatch.devices.probes import ABSENT, Findings

TIMEOUT_S = 15.0  # long enough for a driver that must first wake its cards; a broken one may never answer
_FIELDS = (
    "index",
    "uuid",
    "name",
    "memory.total",
    "memory.used",
    "utilization.gpu",
    "pci.bus_id",
    "temperature.gpu",
    "power.draw",
)


def probe(environ: Mapping[str, str], root: str = "/", *, timeout_s: float = TIMEOUT_S) -> Findings:
    """Every NVIDIA GPU that the command lists. MIG instances are not told apart: that takes the bindings."""
    command = _on_path("nvidia-smi", environ)
    if command is None:
        return ABSENT
    import subprocess  # here, because starting it is rare and importing it is not free

    query = [command, f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(
            query, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout_s,
            env=dict(environ), check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Findings(
            notes=(f"nvidia-smi did not answer within {timeout_s:g} s: is the driver stuck?",), answered=False
        )
    except OSError as error:
        return Findings(notes=(f"nvidia-smi could not be started: {error}",), answered=False)
    if answer.returncode != 0:
        said = " ".join((answer.stdout + answer.stderr).split())[:200]
        return Findings(notes=(f"nvidia-smi failed with status {answer.returncode}: {said}",), answered=False)
    rows = [row for line in answer.stdout.splitlines() if (row := _read_row(line, root)) is not None]
    return Findings(tuple(sorted(rows, key=lambda device: device.index)))


def _read_row(line: str, root: str) -> Device | None:
    values = [value.strip() for value in line.split(",")]
    if len(values) != len(_FIELDS) or not values[0].isdigit():
        return None
    index, uuid, name, total, used, busy, bus_id, temperature, power = values
    pci_bus = sysfs.pci_address(bus_id)
    return Device(
        Vendor.NVIDIA,
        int(index),
        name,
        uuid=uuid if uuid.startswith("GPU-") else None,
        total_memory=_mebibytes(total),
        used_memory=_mebibytes(used),
        utilisation=_whole(busy),
        pci_bus=pci_bus,
        numa_node=sysfs.numa_node(root, pci_bus),
        temperature_c=_whole(temperature),
        power_w=_decimal(power),
        problem="lost" if "is lost" in line.lower() else None,
    )


def _decimal(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:  # "[N/A]", "[Not Supported]", "[GPU is lost]"
        return None


def _whole(value: str) -> int | None:
    number = _decimal(value)
    return int(number) if number is not None else None


def _mebibytes(value: str) -> int | None:
    number = _whole(value)
    return number << 20 if number is not None else None


def _on_path(name: str, environ: Mapping[str, str]) -> str | None:
    # Not shutil.which: importing it costs 13 ms, more than everything else on a machine without GPUs.
    for folder in environ.get("PATH", "").split(os.pathsep):
        candidate = os.path.join(folder, name)
        if folder and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return None
