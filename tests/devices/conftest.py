"""Made-up machines for the tests of this room; what they are made of is in tests/support."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _support(name: str) -> ModuleType:
    # By its path: the tests are no package, so there is no import for it.
    spec = importlib.util.spec_from_file_location(
        f"support_{name}", Path(__file__).parents[1] / "support" / f"{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def nvml_support() -> ModuleType:
    return _support("fake_nvml")


@pytest.fixture(scope="session")
def nvml_library(nvml_support, tmp_path_factory) -> Path:
    return nvml_support.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(autouse=True)
def no_real_gpu(nvml_support, nvml_library, monkeypatch):
    """Whatever machine this runs on, the fake library is the one that is found, and without a state it plays absent."""
    nvml_support.load(nvml_library)
    for name in (
        "FAKE_NVML_DIR",
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "ZE_AFFINITY_MASK",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fake_nvml(nvml_support, nvml_library, no_real_gpu, tmp_path, monkeypatch):
    """Four fake GPUs, in this process and in those that it starts with ``fake_nvml.env()``."""
    gpus = nvml_support.FakeNvml(tmp_path / "nvml", nvml_library)
    monkeypatch.setenv("FAKE_NVML_DIR", str(gpus.folder))
    return gpus


@pytest.fixture
def tree(tmp_path):
    """An empty /sys, /proc and /dev to put cards into; ``root=str(tree)``."""
    return _support("sysfs_tree").SysfsTree(tmp_path / "root")
