"""Made-up /sys, /proc and /dev trees: machines with AMD, Intel or NVIDIA cards, as far as files tell."""

from __future__ import annotations

import os
from pathlib import Path


class SysfsTree:
    """``str(tree)`` is the root to give to whoever looks at the machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._cards = 0
        root.mkdir(parents=True, exist_ok=True)

    def __str__(self) -> str:
        return str(self.root)

    def write(self, path: str, content: object) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")

    def card(self, bus: str, *, vendor: str, numa_node: int | None = None, **facts: object) -> str:
        """A graphics card on a PCI bus, with files in its device folder. Returns its name, ``card0`` and so on."""
        name = f"card{self._cards}"
        folder = f"sys/devices/pci0000:00/{bus}"
        for file, content in {"vendor": vendor, **facts}.items():
            self.write(f"{folder}/{file}", content)
        self.write(f"{folder}/drm/renderD{128 + self._cards}/dev", "226:128")
        self._link(f"sys/class/drm/{name}/device", folder)
        self._link(f"sys/bus/pci/devices/{bus}", folder)
        if numa_node is not None:
            self.write(f"{folder}/numa_node", numa_node)
        self._cards += 1
        return name

    def amd(self, bus: str, **facts: object) -> None:
        memory = {"mem_info_vram_total": 64 << 30, "mem_info_vram_used": 1 << 30, "gpu_busy_percent": 37}
        sensors = {"hwmon/hwmon3/temp1_input": 51000, "hwmon/hwmon3/power1_average": 120_000_000}
        self.card(bus, vendor="0x1002", **{**memory, **sensors, **facts})

    def compute_nodes(self, *render_minors: int) -> None:
        """AMD's compute topology: a CPU, then GPUs in this order."""
        self.write("dev/kfd", "")
        for node, minor in enumerate((None, *render_minors)):
            facts = f"simd_count {0 if minor is None else 440}\ndrm_render_minor {minor or 0}"
            self.write(f"sys/class/kfd/kfd/topology/nodes/{node}/properties", facts)

    def nvidia(self, bus: str, uuid: str, name: str = "NVIDIA A100-SXM4-40GB") -> None:
        self.write(
            f"proc/driver/nvidia/gpus/{bus}/information", f"Model: \t\t {name}\nIRQ:   \t\t 7\nGPU UUID: \t {uuid}"
        )

    def node(self, number: int, cpulist: str) -> None:
        self.write(f"sys/devices/system/node/node{number}/cpulist", cpulist)

    def pci_node(self, bus: str, number: int) -> None:
        self.write(f"sys/bus/pci/devices/{bus}/numa_node", number)

    def _link(self, path: str, target: str) -> None:
        link = self.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(self.root / target, link)
