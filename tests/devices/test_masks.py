"""Masks that Slurm, Docker or the user have set: which devices they leave, under which numbers, and why not others."""

from __future__ import annotations

import pytest

from gpu_dispatch.devices.masks import CUDA, HIP, ROCR, ZE, read_mask, seen_by_cuda, view_of
from gpu_dispatch.devices.model import Device, Vendor

UUIDS = ["GPU-aa11", "GPU-aa22", "GPU-bb33", "GPU-cc44"]
FOUR = [Device(Vendor.NVIDIA, i, "A100", uuid=uuid) for i, uuid in enumerate(UUIDS)]
MIGS = [
    Device(Vendor.NVIDIA, 0, "A100", uuid="GPU-aa11", problem="in MIG mode"),
    Device(Vendor.NVIDIA, 0, "1g.5gb", uuid="MIG-0a", mig_parent="GPU-aa11", mig_instance="7/0"),
    Device(Vendor.NVIDIA, 0, "1g.5gb", uuid="MIG-0b", mig_parent="GPU-aa11", mig_instance="8/0"),
    Device(Vendor.NVIDIA, 1, "A100", uuid="GPU-aa22"),
]


def reached(mask, devices):
    """(id → index) of what a mask leaves."""
    return {entry.id: entry.device.index for entry in read_mask(mask, devices) if entry.id is not None}


@pytest.mark.parametrize(
    ("mask", "left"),
    [
        ("0,1,2,3", {0: 0, 1: 1, 2: 2, 3: 3}),
        ("3,1", {0: 3, 1: 1}),
        (" 2 , 0 ", {0: 2, 1: 0}),
        ("GPU-cc44,GPU-aa11", {0: 3, 1: 0}),
        ("GPU-c,GPU-b", {0: 3, 1: 2}),
        ("GPU-CC44", {0: 3}),
        ("gpu-cc44", {}),
        ("GPU-bb33,1", {0: 2, 1: 1}),
        ("GPU-aa22,2,2,9", {0: 1, 1: 2}),
        ("2,GPU-bb33,0", {0: 2, 1: 0}),
        ("0,2,-1,1", {0: 0, 1: 2}),
        ("1,9,0", {0: 1}),
        ("1,,0", {0: 1}),
        ("GPU-aa,1", {}),
        ("GPU-ff,1", {}),
        ("", {}),
        ("-1", {}),
        ("none", {}),
        ("NoDevFiles", {}),
        ("1st,2nd", {0: 1, 1: 2}),
    ],
)
def test_what_a_mask_leaves_and_under_which_number(mask, left):
    assert reached(mask, FOUR) == left


@pytest.mark.parametrize(
    ("mask", "reasons"),
    [
        (
            "GPU-aa22,2,2,9",
            [None, None, "duplicate of entry 2", "invalid: there is no device 9 here (there is 0 to 3)"],
        ),
        ("9,0", ["invalid: there is no device 9", "ignored: comes after '9', which ends the list"]),
        ("0,-1,1", [None, "a negative number hides itself and all that follows", "ignored: comes after '-1'"]),
        ("GPU-aa", ["ambiguous: the beginning of GPU-aa11 and GPU-aa22"]),
        ("GPU-ff", ["unknown UUID"]),
        ("MIG-ff", ["unknown UUID"]),
        ("0,", [None, "invalid: empty"]),
        ("all", ["neither an index nor a UUID"]),
        ("NoDevFiles", ["Slurm"]),
        ("2,GPU-bb33", [None, "duplicate of entry 1"]),
    ],
)
def test_every_entry_that_is_of_no_use_says_why(mask, reasons):
    entries = read_mask(mask, FOUR)
    assert len(entries) == len(reasons)
    for entry, reason in zip(entries, reasons, strict=True):
        assert (entry.problem is None) == (reason is None)
        assert (reason or "") in (entry.problem or "")


@pytest.mark.parametrize("name", ["MIG-0b", "MIG-GPU-aa11/8/0"])
def test_a_mig_instance_is_found_by_its_new_and_its_old_name(name):
    (entry,) = read_mask(name, MIGS)
    assert entry.device == MIGS[2]
    assert entry.token == name


def test_a_uuid_in_the_wrong_case_is_handed_on_in_the_right_one():
    assert [entry.token for entry in read_mask("GPU-BB,GPU-cc", FOUR)] == ["GPU-bb33", "GPU-cc"]


def test_several_mig_instances_in_a_mask_are_all_usable_one_worker_each():
    assert [entry.id for entry in read_mask("MIG-0a,MIG-0b", MIGS)] == [0, 1]


def test_a_lost_gpu_keeps_its_number_so_that_the_others_do_not_shift():
    devices = [FOUR[0], Device(Vendor.NVIDIA, 1, "NVIDIA GPU", problem="lost"), FOUR[2]]
    entries = read_mask("0,1,2", devices)
    assert [(entry.id, entry.problem) for entry in entries] == [(0, None), (1, "lost"), (2, None)]


@pytest.mark.parametrize(
    ("mask", "count"),
    [  # as PyTorch's re-implementation of the driver's rules has it
        ("1gpu2,2ampere", 2),
        ("0, 1, 2, -1, 3", 3),
        ("0, 1, 2, 1", 0),
        ("2, +3, -0, 1", 4),
        ("one,two,3", 0),
        ("3,two,1", 1),
        ("GPU-aa11,GPU-bb33", 2),
        ("GPU-aa11, GPU-bb33", 1),
        ("GPU-aa11,GPU-aa11", 0),
        ("GPU-aa22,2,2,9", 1),
        ("0,9,1", 1),
        ("", 0),
    ],
)
def test_what_a_plain_cuda_program_would_see(mask, count):
    assert seen_by_cuda(mask, FOUR) == count


def test_a_plain_cuda_program_sees_only_the_first_mig_instance():
    assert seen_by_cuda("MIG-0a,MIG-0b", MIGS) == 1


AMD = [Device(Vendor.AMD, i, "MI300X", uuid=f"GPU-{i}{i}ab") for i in range(4)]


@pytest.mark.parametrize(
    ("environ", "left", "worker_0"),
    [
        ({}, [0, 1, 2, 3], {HIP: "0"}),
        ({HIP: "2,3"}, [2, 3], {HIP: "2"}),
        ({ROCR: "2,3"}, [2, 3], {ROCR: "2"}),
        ({ROCR: "GPU-33ab,GPU-11ab"}, [3, 1], {ROCR: "GPU-33ab"}),
        ({ROCR: "1,2,3", HIP: "2,0"}, [3, 1], {HIP: "2"}),  # HIP counts within what ROCR has left
        ({ROCR: "1,2", HIP: "2"}, [], None),
        ({ROCR: "", HIP: "0"}, [], None),
        ({CUDA: "3"}, [3], {HIP: "3", CUDA: "3"}),  # HIP reads CUDA's variable where its own is missing
        ({HIP: "1", CUDA: "3"}, [1], {HIP: "1", CUDA: "1"}),
        ({ROCR: "2,3", CUDA: "2,3"}, [2, 3], {HIP: "0", CUDA: "0"}),  # Slurm's twins: one mask, written twice
        ({ROCR: "2,3", CUDA: "1"}, [3], {HIP: "1", CUDA: "1"}),
        ({HIP: ""}, [0, 1, 2, 3], {HIP: "0"}),  # an empty one is as good as none for HIP
    ],
)
def test_amd_masks_are_read_in_the_order_in_which_the_runtime_applies_them(environ, left, worker_0):
    view = view_of(Vendor.AMD, AMD, environ)
    assert [entry.device.index for entry in view.usable] == left
    if worker_0 is not None:
        assert view.confine([view.usable[0].token]) == worker_0


@pytest.mark.parametrize(
    ("environ", "left", "worker_0"),
    [
        ({}, [0, 1], {ZE: "0"}),
        ({ZE: "1"}, [1], {ZE: "1"}),
        ({ZE: "1.0,1.1"}, [1, 1], {ZE: "1.0"}),  # the tiles of one card
        ({ZE: ""}, [0, 1], {ZE: "0"}),
    ],
)
def test_intel_masks(environ, left, worker_0):
    view = view_of(Vendor.INTEL, [Device(Vendor.INTEL, i, "Max 1550") for i in range(2)], environ)
    assert [entry.device.index for entry in view.usable] == left
    assert view.confine([view.usable[0].token]) == worker_0
