"""The masks that are already set: which devices a process may use, and by which number it knows them.

    CUDA_VISIBLE_DEVICES   NVIDIA: indices, UUIDs (a unique beginning is enough), MIG names
    ROCR_VISIBLE_DEVICES   AMD, applied first: indices, UUIDs
    HIP_VISIBLE_DEVICES    AMD, counts within what ROCR has left; CUDA_VISIBLE_DEVICES stands in for it
    ZE_AFFINITY_MASK       Intel: "1" or "1.0" (a tile)

A mask is read as a list of *entries*. The id of an entry is its position among the good ones, which is what a number
in ``gpu_ids`` means. The first entry that names nothing ends the list, as the CUDA programming guide says
("0,2,-1,1" shows 0 and 2).

Where we are kinder than CUDA: there, a repeated entry hides *every* device, a change from UUIDs to indices ends the
list (both read from PyTorch's re-implementation of the driver's rules), and a process sees only one MIG instance.
A worker's mask names only its own device, so a repetition, a mixture or a second MIG instance does no harm here, and
hiding paid-for GPUs would. ``seen_by_cuda`` says what a plain CUDA program would see, for the explanation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpu_dispatch.devices.model import Device, Vendor
from gpu_dispatch.light import dataclass, field, replace

CUDA = "CUDA_VISIBLE_DEVICES"
HIP = "HIP_VISIBLE_DEVICES"
ROCR = "ROCR_VISIBLE_DEVICES"
ZE = "ZE_AFFINITY_MASK"


@dataclass(frozen=True, slots=True)
class Entry:
    """One place of a mask; without a mask, one device."""

    token: str
    """What to write into a worker's mask to give it this one."""
    id: int | None
    """The number in ``gpu_ids`` that means it; None when it cannot be reached by a number."""
    device: Device | None = None
    problem: str | None = None
    """Why it is of no use; None when it is."""


@dataclass(frozen=True, slots=True)
class View:
    """One vendor's devices as seen through its mask."""

    vendor: Vendor
    entries: tuple[Entry, ...]
    variable: str | None
    """Where a worker's mask is written; None if the vendor has none (Apple)."""
    masks: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The variables that decide it now, in the order in which they apply; empty when none is set."""
    mirrors: tuple[str, ...] = ()
    """Variables that must say the same, or the vendor's libraries disagree and may see nothing."""

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.masks.items())

    @property
    def hides_all_on_purpose(self) -> bool:
        """Whether a mask says what people write to have no GPU. Anything else that shows none is a mistake."""
        return any(value.strip() in ("", "-1") for value in self.masks.values())

    @property
    def usable(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.problem is None)

    def by_id(self, number: int) -> Entry | None:
        return next((entry for entry in self.entries if entry.id == number), None)

    def confine(self, tokens: Sequence[str]) -> dict[str, str]:
        """The variables that leave a worker just these devices; no device at all when there are no tokens."""
        if self.variable is None:
            return {}
        if not tokens and self.vendor is Vendor.INTEL:
            return {"ONEAPI_DEVICE_SELECTOR": "*:cpu"}  # ZE_AFFINITY_MASK has no word for "none"
        # HIP takes an empty variable for one that is not set.
        value = ",".join(tokens) or ("-1" if self.vendor is Vendor.AMD else "")
        return dict.fromkeys((self.variable, *self.mirrors), value)


def view_of(vendor: Vendor, devices: Sequence[Device], environ: Mapping[str, str]) -> View:
    """A vendor's devices under the masks of ``environ``. No devices: nothing is known, entries are believed."""
    if vendor is Vendor.NVIDIA:
        mask = environ.get(CUDA)
        return View(vendor, _under(mask, devices), CUDA, _set({CUDA: mask}))
    if vendor is Vendor.AMD:
        return _amd_view(devices, environ)
    if vendor is Vendor.INTEL:
        mask = environ.get(ZE) or None  # an empty one is as good as none
        return View(vendor, _under(mask, devices), ZE, _set({ZE: mask}))
    return View(vendor, unmasked(devices), None)


def _amd_view(devices: Sequence[Device], environ: Mapping[str, str]) -> View:
    rocr = environ.get(ROCR)
    # Where no AMD device is known, CUDA_VISIBLE_DEVICES is taken to be about NVIDIA's.
    stand_in = environ.get(CUDA) if devices else None
    mirrors = () if stand_in is None else (CUDA,)
    name = HIP if environ.get(HIP) else CUDA
    hip = environ.get(HIP) or stand_in or None
    if rocr is None:
        return View(Vendor.AMD, _under(hip, devices), HIP, _set({name: hip}), mirrors)
    entries = read_mask(rocr, devices)
    if hip is None:
        return View(Vendor.AMD, entries, ROCR, {ROCR: rocr})
    masks = {ROCR: rocr, name: hip}
    if name == CUDA and hip == rocr:
        # Slurm writes the same list into both. Applied one after the other they may hide every card; it means one mask.
        numbered = (replace(e, token=str(e.id)) if e.id is not None else e for e in entries)
        return View(Vendor.AMD, tuple(numbered), HIP, masks, mirrors)
    # HIP counts within what ROCR has left: look its entries up among those, renumbered, then put the real ones back.
    left = {e.id: e.device for e in entries if e.device is not None and e.id is not None}
    if devices and not left:
        return View(Vendor.AMD, (), HIP, masks, mirrors)
    seen = read_mask(hip, [replace(device, index=number) for number, device in left.items()])
    restored = (replace(e, device=left[e.device.index]) if e.device is not None else e for e in seen)
    return View(Vendor.AMD, tuple(restored), HIP, masks, mirrors)


def _set(variables: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if value is not None}


def _under(mask: str | None, devices: Sequence[Device]) -> tuple[Entry, ...]:
    return unmasked(devices) if mask is None else read_mask(mask, devices)


def unmasked(devices: Sequence[Device]) -> tuple[Entry, ...]:
    """Every device, by its own number. MIG instances have none: they go by their UUID."""
    return tuple(
        Entry(device.uuid or "", None, device, device.problem)
        if device.mig_parent
        else Entry(str(device.index), device.index, device, device.problem)
        for device in devices
    )


def read_mask(text: str, devices: Sequence[Device]) -> tuple[Entry, ...]:
    """The entries of a mask in their order, each with its id or the reason why it has none."""
    entries: list[Entry] = []
    taken: dict[object, int] = {}
    ended_by: str | None = None
    for place, raw in enumerate(text.split(",") if text.strip() else [], 1):
        token = raw.strip()
        if ended_by is not None:
            entries.append(Entry(token, None, None, f"ignored: comes after {ended_by!r}, which ends the list"))
            continue
        device, wrong = _look_up(token, devices)
        if wrong is not None:
            entries.append(Entry(token, None, None, wrong))
            ended_by = token
            continue
        key: object = (device.index, device.uuid, "." in token and token) if device is not None else token.lower()
        if key in taken:
            entries.append(Entry(token, None, device, f"duplicate of entry {taken[key]}"))
            continue
        taken[key] = place
        number = sum(entry.id is not None for entry in entries)
        problem = device.problem if device is not None else None
        entries.append(Entry(_spelled(token, device), number, device, problem))
    return tuple(entries)


def _spelled(token: str, device: Device | None) -> str:
    """The entry as CUDA wants it: the case of a UUID matters there."""
    if device is None or device.uuid is None or not device.uuid.lower().startswith(token.lower()):
        return token
    return token if device.uuid.startswith(token) else device.uuid


def _look_up(token: str, devices: Sequence[Device]) -> tuple[Device | None, str | None]:
    """The device that an entry names, or what is wrong with the entry. (None, None): believed, nothing is known."""
    if number := re.match(r"[+-]?[0-9]+", token):
        return _by_index(int(number[0]), devices)
    if re.match(r"(GPU|MIG)-.", token):
        found = matching(token, devices)
        if len(found) == 1 or not devices:
            return (found[0] if found else None), None
        if found:
            return None, "ambiguous: the beginning of " + " and ".join(str(device.uuid) for device in found)
        return None, "unknown UUID: no device here has it"
    if token == "NoDevFiles":
        return None, "invalid: Slurm writes this into a job that was given no GPU"
    return None, "invalid: empty" if not token else "invalid: neither an index nor a UUID"


def _by_index(index: int, devices: Sequence[Device]) -> tuple[Device | None, str | None]:
    if index < 0:
        return None, "invalid: a negative number hides itself and all that follows"
    if not devices:
        return None, None
    whole = {device.index: device for device in devices if device.mig_parent is None}
    if index not in whole:
        return None, f"invalid: there is no device {index} here (there is {_span(sorted(whole))})"
    return whole[index], None


def matching(beginning: str, devices: Sequence[Device]) -> list[Device]:
    """The devices whose UUID, or older MIG name, starts so."""
    wanted = beginning.lower()
    found = [device for device in devices if device.uuid is not None and device.uuid.lower().startswith(wanted)]
    return found or [
        device
        for device in devices
        if device.mig_parent is not None and f"mig-{device.mig_parent}/{device.mig_instance}".lower() == wanted
    ]


def seen_by_cuda(text: str, devices: Sequence[Device]) -> int:
    """How many devices a CUDA program started with this very mask would see."""
    if text.startswith(("GPU-", "MIG-")):
        kind = text[:4]
        parts: list[str] = []
        for part in text.split(","):
            if not part.startswith(kind):
                break
            parts.append(part)
    else:
        parts = [part.strip() for part in text.split(",")]
    seen: list[Device | None] = []
    for part in parts:
        device, wrong = _look_up(part, devices)
        if wrong is not None:
            break
        if device in seen:
            return 0
        seen.append(device)
    return min(len(seen), 1) if text.startswith("MIG-") else len(seen)


def _span(numbers: Sequence[int]) -> str:
    if len(numbers) > 2 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers)) or "none"
