"""Everything that is known about this machine's devices, at this moment, under the masks that are set.

The way of a fact:
    probes ──► devices of each vendor ──► masks.view_of ──► View: what may be used, by which number, why not the rest
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpu_dispatch.devices import masks
from gpu_dispatch.devices.masks import View
from gpu_dispatch.devices.model import Device, Vendor
from gpu_dispatch.devices.probes import Findings, amd, apple, intel, nvidia_proc, nvidia_smi, nvml
from gpu_dispatch.light import dataclass

_OWN_MASKS = {
    Vendor.NVIDIA: (masks.CUDA,),
    Vendor.AMD: (masks.HIP, masks.ROCR),
    Vendor.INTEL: (masks.ZE,),
    Vendor.APPLE: (),
}

_INSTALL = "the extra gpu-dispatch[gpu] (nvidia-ml-py) tells more"


@dataclass(frozen=True, slots=True)
class Inventory:
    """What is there, and what of it may be used."""

    devices: tuple[Device, ...]
    """Every device present, hidden or not."""
    views: tuple[View, ...]
    """One per vendor that has devices here or a mask set; the one that numbers in ``gpu_ids`` refer to comes first."""
    notes: tuple[str, ...] = ()
    """What the drivers complained about, and what a mask does that its author may not expect."""

    @property
    def primary(self) -> View | None:
        """The view that ``gpu_ids`` is about; None when no device is known here."""
        return self.views[0] if self.devices else None

    @property
    def usable(self) -> tuple[Device, ...]:
        """What ``"auto"`` would take."""
        view = self.primary
        return tuple(e.device for e in view.usable if e.device is not None) if view is not None else ()


def inventory(environ: Mapping[str, str], *, root: str = "/") -> Inventory:
    """Look at the machine. Below a millisecond where there is no GPU; never raises because a driver is broken."""
    findings = {
        Vendor.NVIDIA: _ask("NVIDIA", lambda: _nvidia(environ, root)),
        Vendor.AMD: _ask("AMD", lambda: amd.probe(root)),
        Vendor.INTEL: _ask("Intel", lambda: intel.probe(root)),
        Vendor.APPLE: _ask("Apple", apple.probe),
    }
    present = [vendor for vendor in Vendor if findings[vendor].devices or _masked(vendor, environ)]
    views = [masks.view_of(vendor, findings[vendor].devices, environ) for vendor in present]
    views.sort(key=lambda view: _preference(view, findings[view.vendor].devices, environ))
    notes = [note for vendor in Vendor for note in findings[vendor].notes]
    notes += _mask_notes(findings[Vendor.NVIDIA].devices, environ)
    return Inventory(
        tuple(device for vendor in Vendor for device in findings[vendor].devices), tuple(views), tuple(notes)
    )


def _ask(name: str, probe: Callable[[], Findings]) -> Findings:
    try:
        return probe()
    except Exception as error:  # a driver or its bindings broken in a new way must not end a run that needs no GPU
        return Findings(notes=(f"{name}: could not be asked: {type(error).__name__}: {error}",))


def _nvidia(environ: Mapping[str, str], root: str) -> Findings:
    """The first source that answers; the complaints of those that failed are kept."""
    found = nvml.probe(root)
    notes = found.notes
    # nvidia-smi asks the same library: where that one has failed, only /proc is left.
    if not found.answered:
        found = nvidia_smi.probe(environ, root)
        notes += found.notes
        if found.devices:
            notes += (f"NVIDIA: found with nvidia-smi, which cannot watch memory or tell MIG instances; {_INSTALL}",)
    if not found.devices:
        found = nvidia_proc.probe(root)
        if found.devices:
            notes += (f"NVIDIA: only names are known, not memory or utilisation; {_INSTALL}",)
    return Findings(found.devices, notes)


def _masked(vendor: Vendor, environ: Mapping[str, str]) -> bool:
    return any(name in environ for name in _OWN_MASKS[vendor])


def _preference(view: View, devices: tuple[Device, ...], environ: Mapping[str, str]) -> tuple[bool, bool, bool, int]:
    """Real devices before masks without any; fit ones first; then the vendor whose own mask is set; then by rank."""
    integrated_only = all(device.problem == intel.INTEGRATED for device in devices)
    return (not devices, integrated_only, not _masked(view.vendor, environ), list(Vendor).index(view.vendor))


def _mask_notes(devices: tuple[Device, ...], environ: Mapping[str, str]) -> list[str]:
    mask = environ.get(masks.CUDA)
    if mask is None or not devices:
        return []
    ours = sum(entry.id is not None for entry in masks.read_mask(mask, devices))
    plain = masks.seen_by_cuda(mask, devices)
    if ours == plain:
        return []
    return [
        f"{masks.CUDA}={mask}: a plain CUDA program would see {plain} of these {ours} devices (a repeated entry hides "
        "all, a change between UUIDs and indices ends the list, of MIG instances only the first is seen); a worker's "
        "mask names its own device alone, so all of them can be used here"
    ]
