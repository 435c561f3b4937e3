"""From what the user asked for to what each worker gets.

    spec ──► what is wanted ──┐
    environ ──► inventory ────┴─► one Place per id ──► groups of gpus_per_worker ──► Grants, workers_per_gpu times

Guarantees
- A number means the device that a program under the present mask would know by that number; a worker never gets
  a device that the present mask hides.
- A number in a list need not exist: the worker runs on the CPU, so that a program can be tried anywhere.
- On a machine without GPUs no command is started and no vendor library imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_dispatch.devices import cores, masks
from gpu_dispatch.devices.masks import Entry, View
from gpu_dispatch.devices.model import Device, Grant, Vendor, shortened
from gpu_dispatch.devices.spec import Auto, Cpu, Id, Uuid, parse
from gpu_dispatch.devices.survey import Inventory, inventory
from gpu_dispatch.errors import DeviceSpecError
from gpu_dispatch.light import dataclass

_FRAMEWORK_NAME = {Vendor.NVIDIA: "cuda", Vendor.AMD: "cuda", Vendor.INTEL: "xpu", Vendor.APPLE: "mps"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where one id leads: what to write into each vendor's mask, and the device, if it is known."""

    gpu_id: int | str
    tokens: tuple[tuple[View, str | None], ...]
    """For each view, this device's word in a worker's mask; None hides everything."""
    device: Device | None
    position: int | None
    """The number of the device among those the parent can see."""


def resolve(
    spec: object,
    environ: Mapping[str, str],
    *,
    workers_per_gpu: int = 1,
    gpus_per_worker: int = 1,
    isolate: bool = True,
    root: str = "/",
) -> list[Grant]:
    """One Grant per worker slot. Every device gets its first worker before any gets its second.

    Raises DeviceSpecError, with the offending value and what there is, before anything is started.
    """
    try:
        wanted = parse(spec)
        _check_count("workers_per_gpu", workers_per_gpu)
        _check_count("gpus_per_worker", gpus_per_worker)
        if workers_per_gpu > 1 and gpus_per_worker > 1:
            raise DeviceSpecError(f"{workers_per_gpu=} and {gpus_per_worker=} exclude each other")
        here = inventory(environ, root=root)
        places = _places(wanted, here)
        groups = _groups(places, gpus_per_worker, isolate)
    except DeviceSpecError as error:
        raise DeviceSpecError(f"{error}. {what_is_there(inventory(environ, root=root))}") from None
    share = max(1, cores.core_budget(root) // (len(groups) * workers_per_gpu))
    hidden = _hide_everything(here) if isinstance(wanted, Cpu) and isolate else {}
    round_of_grants = [_grant(group, share, environ, isolate, hidden, root) for group in groups]
    return round_of_grants * workers_per_gpu


def what_is_there(here: Inventory) -> str:
    """One sentence for the end of an error message."""
    view = here.primary
    complaints = "".join(f"; {note}" for note in here.notes)
    if view is None:
        return f'No GPU was found on this machine{complaints}; "cpu:N" runs N workers without one'
    mask = f" (under {view})" if view.masks else ""
    usable = ", ".join(
        f"{entry.id if entry.id is not None else entry.token}: {entry.device.name if entry.device else 'unknown'}"
        + (f", {shortened(entry.device.uuid)}" if entry.device and entry.device.uuid and entry.id is not None else "")
        for entry in view.usable
    )
    return f"Usable here{mask}: {usable or 'none'}{complaints}"


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise DeviceSpecError(f"{name} must be a whole number of at least 1, got {value!r}")


def _places(wanted: Auto | Cpu | tuple[Id | Uuid, ...], here: Inventory) -> list[Place]:
    if isinstance(wanted, Cpu):
        return [Place(number, (), None, None) for number in range(wanted.count)]
    if isinstance(wanted, Auto):
        return _every_usable(here)
    places = [_by_number(item, here) if isinstance(item, Id) else _by_uuid(item, here) for item in wanted]
    seen: dict[tuple[Device, int | None], int | str] = {}
    for place in places:
        if place.device is not None:
            asked = seen.setdefault((place.device, place.position), place.gpu_id)
            if asked != place.gpu_id:
                raise DeviceSpecError(f"gpu_ids: {asked} and {place.gpu_id} are the same device")
    return places


def _every_usable(here: Inventory) -> list[Place]:
    view = here.primary
    if view is None:
        raise DeviceSpecError('gpu_ids="auto": there is no GPU')
    if not view.usable:
        cause = f"{view} hides all" if view.masks else "all have problems"
        raise DeviceSpecError(f'gpu_ids="auto": {cause}{_reasons(view)}; "cpu:N" runs N workers without a GPU')
    return [_at(entry, entry.token if entry.id is None else entry.id, view) for entry in view.usable]


def _by_number(wanted: Id, here: Inventory) -> Place:
    number = wanted.number
    view = here.primary
    if view is None or view.hides_all_on_purpose:
        return Place(number, tuple((v, _believed(v, number)) for v in _views_to_set(here)), None, None)
    entry = view.by_id(number)
    if entry is not None:
        return _at(entry, number, view)
    if any(device.index == number and device.vendor is view.vendor for device in here.devices):
        raise DeviceSpecError(f"gpu_ids: {view} hides GPU {number}: numbers count what a mask shows{_reasons(view)}")
    if wanted.typed:
        raise DeviceSpecError(f"gpu_ids: there is no GPU {number}")
    return Place(number, ((view, _believed(view, number)),), None, None)


def _believed(view: View, number: int) -> str | None:
    """The word for a number that no driver knows: its place in the mask; without a mask, itself."""
    entry = view.by_id(number)
    if entry is not None:
        return entry.token
    return None if view.masks else str(number)


def _reasons(view: View) -> str:
    """What is wrong with the entries that are of no use, in brackets."""
    problems = "; ".join(f"{entry.token}: {entry.problem}" for entry in view.entries if entry.problem is not None)
    return f" ({problems})" if problems else ""


def _views_to_set(here: Inventory) -> list[View]:
    """Where nothing is known: the masks that are set, and CUDA's in any case."""
    views = list(here.views)
    if not any(view.vendor is Vendor.NVIDIA for view in views):
        views.append(masks.view_of(Vendor.NVIDIA, (), {}))
    return views


def _by_uuid(wanted: Uuid, here: Inventory) -> Place:
    text = wanted.text
    if not here.devices:
        for view in here.views:
            for entry in view.entries:
                if entry.id is not None and entry.token.lower().startswith(text.lower()):
                    return Place(text, ((view, entry.token),), None, entry.id)
        raise DeviceSpecError(f"gpu_ids: unknown UUID {text!r}")
    found = masks.matching(text, here.devices)
    if not found:
        raise DeviceSpecError(f"gpu_ids: unknown UUID {text!r}")
    if len(found) > 1:
        raise DeviceSpecError(f"gpu_ids: {text!r} is ambiguous: " + " and ".join(str(device.uuid) for device in found))
    for view in here.views:
        for entry in view.entries:
            if entry.device == found[0] and (entry.id is not None or entry.device.mig_parent):
                # NVIDIA's mask takes the UUID itself, which no renumbering can mislead.
                token = found[0].uuid if view.vendor is Vendor.NVIDIA else entry.token
                return Place(text, ((view, token),), entry.device, entry.id)
    hiding = next(view for view in here.views if view.vendor is found[0].vendor)
    raise DeviceSpecError(f"gpu_ids: {hiding} hides {text!r} ({found[0]})")


def _at(entry: Entry, gpu_id: int | str, view: View) -> Place:
    return Place(gpu_id, ((view, entry.token),), entry.device, entry.id)


def _groups(places: Sequence[Place], size: int, isolate: bool) -> list[tuple[Place, ...]]:
    if len(places) % size:
        raise DeviceSpecError(f"gpus_per_worker={size}: {len(places)} devices cannot be shared out evenly")
    instances = [place for place in places if place.device is not None and place.device.mig_parent is not None]
    if instances and (size > 1 or not isolate):
        setting = f"gpus_per_worker={size}" if size > 1 else "isolate=False"
        raise DeviceSpecError(f"{setting}: a process can use only one MIG instance, {instances[0].gpu_id} is one")
    return [tuple(places[start : start + size]) for start in range(0, len(places), size)]


def _grant(
    group: Sequence[Place], share: int, environ: Mapping[str, str], isolate: bool, hidden: Mapping[str, str], root: str
) -> Grant:
    devices = tuple(place.device for place in group if place.device is not None)
    cpus = cores.near(devices, root) if devices else None
    env = cores.thread_caps(min(share, len(cpus)) if cpus else share, environ)
    env.update(hidden)
    if isolate:
        env.update(_mask_of(group))
    if any(view.vendor is Vendor.NVIDIA for place in group for view, _ in place.tokens):
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # CUDA's default is "fastest first", which no other tool counts by
    return Grant(group[0].gpu_id, _device_name(group[0], isolate), " + ".join(map(_label, group)), env, cpus, devices)


def _mask_of(group: Sequence[Place]) -> dict[str, str]:
    env: dict[str, str] = {}
    for view, _ in group[0].tokens:
        words = [word for place in group for other, word in place.tokens if other.vendor is view.vendor and word]
        uuids = [place.device.uuid for place in group if place.device is not None and place.device.uuid is not None]
        if len({word.startswith("GPU-") for word in words}) > 1 and len(uuids) == len(words):
            words = uuids  # CUDA ends the list where it changes between UUIDs and numbers
        env.update(view.confine(words))
    return env


def _device_name(place: Place, isolate: bool) -> str:
    if place.device is None:
        return "cpu"
    name = _FRAMEWORK_NAME[place.device.vendor]
    return name if name == "mps" else f"{name}:{0 if isolate else place.position}"


def _label(place: Place) -> str:
    device, name = place.device, place.gpu_id if isinstance(place.gpu_id, str) else f"GPU {place.gpu_id}"
    if not place.tokens:
        return f"CPU worker {place.gpu_id}"
    if device is None:
        return f"{name} (not found on this machine)"
    if device.mig_parent or isinstance(place.gpu_id, str) or place.gpu_id == device.index:
        return str(device)
    identity = f", {shortened(device.uuid)}" if device.uuid else ""
    return f"{name} ({device.name}{identity}, number {device.index} of this machine)"


def _hide_everything(here: Inventory) -> dict[str, str]:
    """What leaves a worker no GPU at all."""
    hidden = {masks.CUDA: ""}
    for view in here.views:
        hidden.update(view.confine(()))
    if masks.HIP in hidden:
        hidden[masks.CUDA] = hidden[masks.HIP]  # some libraries refuse to start where these two differ
    return hidden
