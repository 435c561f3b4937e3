"""Made-up machines for the tests of this room; what they are made of is in tests/support."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import fake_nvml as support
import pytest
from sysfs_tree import SysfsTree


@pytest.fixture(scope="session")
def nvml_support() -> ModuleType:
    """The functions beside the machine itself: the UUIDs of its devices, and ``claim``."""
    return support


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory) -> Path:
    return support.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(autouse=True)
def no_real_gpu(nvml_library, monkeypatch):
    """Whatever machine this runs on, the fake library is the one that is found, and without a state it plays absent."""
    support.load(nvml_library)
    for name in (
        "FAKE_NVML_DIR",
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "ZE_AFFINITY_MASK",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fake_nvml(nvml_library, no_real_gpu, tmp_path, monkeypatch):
    """Four fake GPUs, in this process and in those that it starts with ``fake_nvml.env()``."""
    gpus = support.FakeNvml(tmp_path / "nvml", nvml_library)
    monkeypatch.setenv("FAKE_NVML_DIR", str(gpus.folder))
    return gpus


@pytest.fixture
def tree(tmp_path):
    """An empty /sys, /proc and /dev to put cards into; ``root=str(tree)``."""
    return SysfsTree(tmp_path / "root")
