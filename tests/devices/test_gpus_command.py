"""``gpu-dispatch gpus``, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.fixture
def gpus_command(fake_nvml):
    def run(*arguments, **environment):
        return subprocess.run(
            [sys.executable, "-m", "gpu_dispatch", "gpus", *arguments],
            env={**fake_nvml.env(), **environment},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    return run


def test_every_gpu_is_listed_with_memory_and_utilisation(gpus_command, fake_nvml, nvml_support):
    for index in range(4):
        fake_nvml.set(index, used=1024 * (index + 1), util=10 * index)
    lines = gpus_command().splitlines()
    for index in range(4):
        assert f"{index + 1}.0 GiB of 40.0 GiB  {10 * index} %" in lines[1 + index]
        assert nvml_support.gpu_uuid(index) in lines[1 + index]
    assert lines[-1] == 'Usable: 4 (gpu_ids="auto" takes 0, 1, 2, 3)'


def test_a_mask_is_explained_entry_by_entry(gpus_command, nvml_support):
    uuid = nvml_support.gpu_uuid(1)
    text = gpus_command(CUDA_VISIBLE_DEVICES=f"{uuid},2,2,9")
    assert f"  {uuid}: usable as 0, GPU 1 (Fake A100-SXM4-40GB, GPU-a0015e1f…)\n" in text
    assert "  2: usable as 1, GPU 2 " in text
    assert "  2: not usable, duplicate of entry 2\n" in text
    assert "  9: not usable, invalid: there is no device 9 here (there is 0 to 3)\n" in text
    assert 'Usable: 2 (gpu_ids="auto" takes 0, 1)' in text
    assert "a plain CUDA program would see 1 of these 2 devices" in text


def test_the_same_as_json(gpus_command, fake_nvml, nvml_support):
    fake_nvml.set(0, used=100, util=50)
    fake_nvml.lose(3)
    uuid = nvml_support.gpu_uuid(1)
    answer = json.loads(gpus_command("--json", CUDA_VISIBLE_DEVICES=f"{uuid},2,2,9"))
    assert [device["index"] for device in answer["devices"]] == [0, 1, 2, 3]
    assert (answer["devices"][0]["used_memory"], answer["devices"][0]["utilisation"]) == (100 << 20, 50)
    assert answer["devices"][3]["problem"] == "lost"
    (mask,) = answer["masks"]
    assert mask["variables"] == {"CUDA_VISIBLE_DEVICES": f"{uuid},2,2,9"}
    assert [(entry["entry"], entry["usable"], entry["id"]) for entry in mask["entries"]] == [
        (uuid, True, 0),
        ("2", True, 1),
        ("2", False, None),
        ("9", False, None),
    ]
    assert answer["usable"] == [0, 1]
    assert "GPU 3: lost" in answer["notes"]


def test_mig_instances_are_listed_below_their_gpu(gpus_command, fake_nvml, nvml_support):
    fake_nvml.split(1, 2)
    text = gpus_command()
    assert "in MIG mode: its instances are used instead" in text
    assert f'"auto" takes 0, {nvml_support.mig_uuid(1, 0)}, {nvml_support.mig_uuid(1, 1)}, 2, 3' in text


def test_a_mask_that_hides_everything_is_said_to(gpus_command):
    text = gpus_command(CUDA_VISIBLE_DEVICES="")
    assert "CUDA_VISIBLE_DEVICES=\n  hides every device" in text
    assert "Usable: none" in text


def test_without_a_gpu_it_says_so_and_succeeds(gpus_command, fake_nvml, nvml_support, nvml_library, tmp_path):
    none = nvml_support.FakeNvml(tmp_path / "none", nvml_library, gpus=0)
    assert "No GPU was found on this machine" in gpus_command(FAKE_NVML_DIR=str(none.folder))
    answer = json.loads(gpus_command("--json", FAKE_NVML_DIR=str(none.folder)))
    assert (answer["devices"], answer["usable"]) == ([], [])


def test_a_broken_driver_is_told_and_succeeds(gpus_command, fake_nvml):
    fake_nvml.fail_to_start(9)
    assert "note: NVIDIA driver: Driver Not Loaded" in gpus_command()
