"""NVIDIA GPUs through an nvidia-smi on PATH, where the bindings are not installed."""

from __future__ import annotations

import os
import time

import pytest

from gpu_dispatch.devices import inventory, resolve
from gpu_dispatch.devices.probes import nvidia_smi

HEALTHY = """\
0, GPU-aa11, NVIDIA A100-SXM4-40GB, 40960, 1234, 17, 00000000:3B:00.0, 45, 61.20
1, GPU-bb22, NVIDIA A100-SXM4-40GB, 40960, [N/A], [Not Supported], 00000000:86:00.0, 50, [N/A]
"""


@pytest.fixture
def smi(tmp_path):
    """Puts an nvidia-smi with this body on a PATH, and returns the environment."""

    def install(body):
        folder = tmp_path / "bin"
        folder.mkdir()
        script = folder / "nvidia-smi"
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)
        return {"PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"}

    return install


def test_gpus_are_found_with_what_the_command_tells(smi, tree):
    tree.pci_node("0000:86:00.0", 1)
    first, second = nvidia_smi.probe(smi(f"cat <<END\n{HEALTHY}END"), str(tree)).devices
    assert (first.index, first.uuid, first.name) == (0, "GPU-aa11", "NVIDIA A100-SXM4-40GB")
    assert (first.total_memory, first.used_memory, first.utilisation) == (40960 << 20, 1234 << 20, 17)
    assert (first.temperature_c, first.power_w, first.pci_bus) == (45, 61.2, "0000:3b:00.0")
    assert (second.used_memory, second.utilisation, second.power_w, second.numa_node) == (None, None, None, 1)


def test_it_is_asked_when_there_is_no_library(smi, tree):
    environ = smi(f"cat <<END\n{HEALTHY}END")
    here = inventory(environ, root=str(tree))
    assert [device.uuid for device in here.usable] == ["GPU-aa11", "GPU-bb22"]
    assert "nvidia-ml-py" in here.notes[0]
    assert [grant.device for grant in resolve("auto", environ, root=str(tree))] == ["cuda:0", "cuda:0"]


def test_it_gets_the_fields_it_is_asked_for(smi, tree, tmp_path):
    nvidia_smi.probe(smi(f'echo "$@" > {tmp_path}/asked'), str(tree))
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith("--query-gpu=index,uuid,name,memory.total")
    assert "--format=csv,noheader,nounits" in asked


def test_a_lost_gpu_is_said_to_be_lost(smi, tree):
    lost = "[GPU is lost]"
    row = f"0, {lost}, {lost}, {lost}, {lost}, {lost}, 00000000:3B:00.0, {lost}, {lost}"
    (device,) = nvidia_smi.probe(smi(f"echo '{row}'"), str(tree)).devices
    assert (device.problem, device.uuid, device.total_memory) == ("lost", None, None)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "echo 'NVIDIA-SMI has failed because it could not communicate with the driver.'; exit 9",
            "status 9: NVIDIA-SMI has",
        ),
        ("kill -SEGV $$", "failed with status -11"),
    ],
)
def test_a_command_that_fails_is_a_note(smi, tree, body, said):
    here = inventory(smi(body), root=str(tree))
    assert here.devices == ()
    assert said in here.notes[0]


@pytest.mark.parametrize("body", ["echo No devices were found", "true", "printf '\\377\\376,x'"])
def test_a_command_that_lists_nothing_is_a_machine_without_gpus(smi, tree, body):
    assert inventory(smi(body), root=str(tree)).devices == ()


def test_a_command_that_hangs_is_given_up(smi, tree):
    started = time.monotonic()
    found = nvidia_smi.probe(smi("exec sleep 60"), str(tree), timeout_s=0.2)
    assert time.monotonic() - started < 10
    assert "did not answer within 0.2 s" in found.notes[0]


def test_a_command_that_cannot_be_executed_is_a_note(smi, tree, tmp_path):
    environ = smi("true")
    (tmp_path / "bin" / "nvidia-smi").write_bytes(b"\x7fELF broken")
    assert "could not be started" in nvidia_smi.probe(environ, str(tree)).notes[0]


def test_after_a_failure_proc_is_asked(smi, tree):
    tree.nvidia("0000:3b:00.0", "GPU-1234")
    here = inventory(smi("exit 9"), root=str(tree))
    assert [device.uuid for device in here.devices] == ["GPU-1234"]
