"""What hardware is here, and how a worker is confined to its part of it.

The doors:
    resolve(spec, environ) -> list[Grant]     what each worker slot gets
    inventory(environ) -> Inventory           what is here, what may be used, and why not the rest
    DeviceMonitor                             memory, utilisation and health while a run goes on
    core_budget() -> int                      how many cores' worth of time this process may use
"""

from __future__ import annotations

from gpu_dispatch.devices.cores import core_budget
from gpu_dispatch.devices.grants import resolve
from gpu_dispatch.devices.hints import hint_for_setup_error
from gpu_dispatch.devices.model import Device, Grant, Vendor
from gpu_dispatch.devices.monitor import DeviceMonitor
from gpu_dispatch.devices.survey import Inventory, inventory

__all__ = [
    "Device", "DeviceMonitor", "Grant", "Inventory", "Vendor", "core_budget", "hint_for_setup_error", "inventory",
    "resolve",
]  # fmt: skip
