"""NVIDIA GPUs through the real NVML bindings, over a driver library made for the test."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpu_dispatch.devices import inventory
from gpu_dispatch.devices.model import Vendor
from gpu_dispatch.devices.probes import nvml


def test_everything_a_user_wants_to_know_about_a_gpu(fake_nvml, nvml_support, tree):
    fake_nvml.set(2, used=5000, util=80, temp=66, power=250_000)
    tree.pci_node("0000:3c:00.0", 1)
    devices = nvml.probe(str(tree)).devices
    assert [device.index for device in devices] == [0, 1, 2, 3]
    third = devices[2]
    assert third.vendor is Vendor.NVIDIA
    assert third.name == "Fake A100-SXM4-40GB"
    assert third.uuid == nvml_support.gpu_uuid(2)
    assert (third.used_memory, third.total_memory) == (5000 << 20, 40960 << 20)
    assert (third.utilisation, third.temperature_c, third.power_w) == (80, 66, 250.0)
    assert (third.pci_bus, third.numa_node) == ("0000:3c:00.0", 1)
    assert third.problem is None


def test_a_lost_gpu_is_listed_as_lost_and_the_others_are_described(fake_nvml, tree):
    fake_nvml.lose(2)
    found = nvml.probe(str(tree))
    assert [device.problem for device in found.devices] == [None, None, "lost", None]
    assert found.notes == ("GPU 2: lost",)


def test_a_gpu_that_is_lost_while_it_is_being_described_is_listed_as_lost(fake_nvml, tree, monkeypatch):
    import pynvml

    def name(handle):
        if pynvml.nvmlDeviceGetIndex(handle) == 1:
            fake_nvml.lose(1)
        return ask(handle)

    ask = pynvml.nvmlDeviceGetName
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", name)
    assert [device.problem for device in nvml.probe(str(tree)).devices] == [None, "lost", None, None]


def test_mig_instances_follow_their_gpu(fake_nvml, nvml_support, tree):
    fake_nvml.split(0, 2)
    fake_nvml.set("0.1", used=100)
    gpu, first, second, *_ = nvml.probe(str(tree)).devices
    assert gpu.problem == "in MIG mode: its instances are used instead"
    assert (first.uuid, first.mig_parent, first.mig_instance) == (nvml_support.mig_uuid(0, 0), gpu.uuid, "7/0")
    assert (second.used_memory, second.total_memory) == (100 << 20, 4864 << 20)
    assert second.utilisation is None  # NVML does not tell it for instances
    assert str(second) == "MIG instance of GPU 0 (Fake A100-SXM4-40GB MIG 1g.5gb, MIG-00015e1f…)"


def test_mig_mode_without_an_instance_is_a_problem_of_the_gpu(fake_nvml, tree):
    fake_nvml.split(3, 0)
    assert nvml.probe(str(tree)).devices[3].problem == "in MIG mode, but has no instance"


@pytest.mark.parametrize(("code", "said"), [(9, "Driver Not Loaded"), (18, "version mismatch"), (999, "Unknown Error")])
def test_a_driver_that_does_not_start_is_a_note_and_no_exception(fake_nvml, tree, code, said):
    fake_nvml.fail_to_start(code)
    here = inventory({}, root=str(tree))
    assert here.devices == ()
    assert said in here.notes[0]


def test_a_driver_with_no_gpus(fake_nvml, nvml_support, nvml_library, tmp_path, monkeypatch, tree):
    none = nvml_support.FakeNvml(tmp_path / "none", nvml_library, gpus=0)
    monkeypatch.setenv("FAKE_NVML_DIR", str(none.folder))
    assert inventory({}, root=str(tree)).devices == ()


def test_where_the_library_fails_the_names_still_come_from_proc(fake_nvml, tree):
    fake_nvml.fail_to_start(18)
    tree.nvidia("0000:3b:00.0", "GPU-1234")
    here = inventory({}, root=str(tree))
    assert [device.uuid for device in here.devices] == ["GPU-1234"]
    assert "version mismatch" in here.notes[0]
    assert "only names are known" in here.notes[1]


def test_bindings_that_break_in_an_unforeseen_way_are_a_note(fake_nvml, tree, monkeypatch):
    import pynvml

    def breaks():
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", breaks)
    (note,) = inventory({}, root=str(tree)).notes
    assert "NVIDIA: could not be asked: UnicodeDecodeError" in note


_COLD = """
import sys, time
import ctypes  # the rest of the package uses it anyway
from gpu_dispatch.devices import resolve
best = 1.0
for attempt in range(5):
    started = time.perf_counter()
    grants = resolve([0, 1, 2, 3], {"PATH": sys.argv[1]}, root=sys.argv[1])
    best = min(best, time.perf_counter() - started)
assert [grant.device for grant in grants] == ["cpu"] * 4
loaded = {"pynvml", "subprocess", "shutil"} & set(sys.modules)
assert not loaded, loaded
print(best)
"""


def test_without_a_gpu_a_list_of_ids_costs_next_to_nothing_and_imports_no_bindings(tmp_path, monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    done = subprocess.run([sys.executable, "-c", _COLD, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.005


def test_a_process_that_is_started_with_the_library_on_its_path_finds_the_gpus(fake_nvml):
    code = "import os; from gpu_dispatch.devices import inventory; print(len(inventory(os.environ).usable))"
    done = subprocess.run([sys.executable, "-c", code], env=fake_nvml.env(), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "4"


def test_without_a_c_compiler_the_fake_says_so_instead_of_passing(nvml_support, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="no C compiler"):
        nvml_support.build(tmp_path)
