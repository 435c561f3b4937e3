"""``gpu-dispatch gpus``: what devices are here, which of them a run may use, and why not the others."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from typing import Any

from gpu_dispatch.devices import Device, Inventory, inventory
from gpu_dispatch.devices.masks import Entry, View

_EXAMPLES = """\
examples:
  gpu-dispatch gpus
  gpu-dispatch gpus --json
  CUDA_VISIBLE_DEVICES=2,3 gpu-dispatch gpus    # what a run under this mask could use, and by which numbers
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "gpus",
        help="list the devices of this machine",
        description="List the GPUs of this machine, which of them a run may use under the masks that are set, and why "
        "not the rest.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON, memory in bytes")
    parser.set_defaults(run=list_devices)


def list_devices(arguments: argparse.Namespace) -> int:
    here = inventory(os.environ)
    print(json.dumps(as_json(here), indent=2) if arguments.json else as_text(here))
    return 0


def as_json(here: Inventory) -> dict[str, Any]:
    return {
        "devices": [asdict(device) for device in here.devices],
        "masks": [
            {
                "variables": dict(view.masks),
                "entries": [
                    {
                        "entry": entry.token,
                        "id": entry.id,
                        "usable": entry.problem is None,
                        "device": entry.device.index if entry.device else None,
                        "uuid": entry.device.uuid if entry.device else None,
                        "why_not": entry.problem,
                    }
                    for entry in view.entries
                ],
            }
            for view in here.views
            if view.masks
        ],
        "usable": [entry.token if entry.id is None else entry.id for entry in _usable(here)],
        "notes": list(here.notes),
    }


def as_text(here: Inventory) -> str:
    blocks = [_table([_HEADINGS, *(_row(device) for device in here.devices)])] if here.devices else []
    if not here.devices:
        blocks.append('No GPU was found on this machine. Workers can run without one: gpu_ids="cpu:4" starts four.')
    blocks += [_explain(view) for view in here.views if view.masks]
    if here.devices:
        blocks.append(_summary(here))
    if here.notes:
        blocks.append("\n".join(f"note: {note}" for note in here.notes))
    return "\n\n".join(blocks)


_HEADINGS = ("GPU", "NAME", "MEMORY USED", "UTIL", "TEMP", "POWER", "PCI BUS", "NUMA", "UUID", "")


def _row(device: Device) -> tuple[str, ...]:
    number = f"{device.index}/{device.mig_instance or '?'}" if device.mig_parent else str(device.index)
    return (
        number,
        device.name,
        f"{_gigabytes(device.used_memory)} of {_gigabytes(device.total_memory)}",
        "-" if device.utilisation is None else f"{device.utilisation} %",
        "-" if device.temperature_c is None else f"{device.temperature_c} °C",
        "-" if device.power_w is None else f"{device.power_w:.0f} W",
        device.pci_bus or "-",
        "-" if device.numa_node is None else str(device.numa_node),
        device.uuid or "-",
        device.problem or "",
    )


def _gigabytes(number: int | None) -> str:
    return "?" if number is None else f"{number / 2**30:.1f} GiB"


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _explain(view: View) -> str:
    lines = [str(view)]
    lines += [f"  {entry.token or '(empty)'}: {_verdict(entry)}" for entry in view.entries]
    if not view.entries:
        lines.append("  hides every device")
    return "\n".join(lines)


def _verdict(entry: Entry) -> str:
    if entry.problem is not None:
        return f"not usable, {entry.problem}"
    return f"usable as {entry.id}, {entry.device or 'but no such device is known here'}"


def _usable(here: Inventory) -> tuple[Entry, ...]:
    return here.primary.usable if here.primary is not None else ()


def _summary(here: Inventory) -> str:
    ids = [str(entry.token if entry.id is None else entry.id) for entry in _usable(here)]
    if not ids:
        return 'Usable: none. gpu_ids="auto" would fail; "cpu:4" starts four workers without a GPU.'
    return f'Usable: {len(ids)} (gpu_ids="auto" takes {", ".join(ids)})'
