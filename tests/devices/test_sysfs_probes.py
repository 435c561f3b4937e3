"""AMD, Intel and NVIDIA cards as far as files tell, and Apple's."""

from __future__ import annotations

import pytest

from gpu_dispatch.devices import inventory, sysfs
from gpu_dispatch.devices.model import Vendor
from gpu_dispatch.devices.probes import amd, apple, intel, nvidia_proc


def test_an_amd_card_is_described_from_sysfs(tree):
    tree.amd("0000:03:00.0", unique_id="5c88007d24a2", product_name="MI300X", numa_node=1)
    tree.compute_nodes(128)
    (card,) = amd.probe(str(tree)).devices
    assert (card.vendor, card.index, card.name, card.uuid) == (Vendor.AMD, 0, "MI300X", "GPU-5c88007d24a2")
    assert (card.total_memory, card.used_memory, card.utilisation) == (64 << 30, 1 << 30, 37)
    assert (card.temperature_c, card.power_w) == (51, 120.0)
    assert (card.pci_bus, card.numa_node) == ("0000:03:00.0", 1)


def test_amd_cards_are_numbered_as_rocm_numbers_them(tree):
    tree.amd("0000:03:00.0", unique_id="a")
    tree.amd("0000:43:00.0", unique_id="b")
    tree.amd("0000:83:00.0", unique_id="c")
    tree.compute_nodes(130, 128)  # ROCm's first is card2; card1 cannot compute
    assert [(card.index, card.uuid) for card in amd.probe(str(tree)).devices] == [(0, "GPU-c"), (1, "GPU-a")]


def test_amd_cards_without_the_compute_driver_are_listed_with_a_note(tree):
    tree.amd("0000:03:00.0")
    found = amd.probe(str(tree))
    assert len(found.devices) == 1
    assert "no compute driver" in found.notes[0]


def test_no_access_to_the_compute_device_is_a_note(tree):
    tree.amd("0000:03:00.0")
    tree.compute_nodes(128)
    (tree.root / "dev/kfd").unlink()  # root may open what others may not: to be missing is the same to os.access
    assert "render and video" in amd.probe(str(tree)).notes[0]


def test_connectors_and_cards_of_others_are_no_gpus(tree):
    tree.card("0000:01:00.0", vendor="0x1af4")
    (tree.root / "sys/class/drm/card0-HDMI-A-1").mkdir()
    (tree.root / "sys/class/drm/renderD128").mkdir()
    assert inventory({}, root=str(tree)).devices == ()


def test_files_that_are_odd_or_missing_are_not_known_facts(tree):
    tree.amd("0000:03:00.0", mem_info_vram_total="lots", gpu_busy_percent="", numa_node=-1)
    tree.compute_nodes(128)
    (card,) = amd.probe(str(tree)).devices
    assert (card.total_memory, card.utilisation, card.numa_node, card.uuid) == (None, None, None, None)


def test_intel_cards_with_memory_of_their_own_come_first(tree):
    tree.card("0000:00:02.0", vendor="0x8086")
    name = tree.card("0000:4d:00.0", vendor="0x8086")
    tree.write(f"sys/class/drm/{name}/lmem_total_bytes", 16 << 30)
    tree.card("0000:5d:00.0", vendor="0x8086", **{"tile0/physical_vram_size_bytes": "0x100"})
    old, new, integrated = intel.probe(str(tree)).devices
    assert (old.pci_bus, old.total_memory, old.problem) == ("0000:4d:00.0", 16 << 30, None)
    assert (new.pci_bus, new.problem, new.index) == ("0000:5d:00.0", None, 1)
    assert integrated.problem == "integrated graphics: shares the memory of the host"


def test_nvidia_cards_are_found_in_proc_by_pci_order(tree):
    tree.nvidia("0000:86:00.0", "GPU-second")
    tree.nvidia("0000:3b:00.0", "GPU-????????-????", name="Tesla T4")
    first, second = nvidia_proc.probe(str(tree)).devices
    assert (first.index, first.name, first.uuid) == (0, "Tesla T4", None)  # question marks: not opened yet
    assert (second.index, second.uuid) == (1, "GPU-second")


def test_an_apple_machine_has_one_gpu():
    (gpu,) = apple.probe("darwin", "arm64").devices
    assert gpu.vendor is Vendor.APPLE
    assert gpu.total_memory
    assert not apple.probe("darwin", "x86_64").devices
    assert not apple.probe("linux", "arm64").devices


def test_a_machine_without_any_of_this_is_empty_and_silent(tree):
    here = inventory({}, root=str(tree))
    assert (here.devices, here.views, here.notes) == ((), (), ())


@pytest.mark.parametrize(
    ("written", "cores"),
    [("0-3,8", {0, 1, 2, 3, 8}), ("5", {5}), ("", set()), (None, set()), ("x-3", set())],
)
def test_sets_of_cores(written, cores):
    assert sysfs.cpu_list(written) == cores


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0001:0A:00.1", "0001:0a:00.1"),
        ("10000:01:00.0", "10000:01:00.0"),
        ("", None),
    ],
)
def test_pci_addresses(written, address):
    assert sysfs.pci_address(written) == address
