"""Fake GPUs under the real bindings, as in tests/devices."""

from __future__ import annotations

from pathlib import Path

import fake_nvml as support
import pytest


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return support.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def gpus(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> support.FakeNvml:
    """Two GPUs with 10 GB each."""
    support.load(nvml_library)
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"):
        monkeypatch.delenv(name, raising=False)
    machine = support.FakeNvml(tmp_path / "nvml", nvml_library, gpus=2)
    monkeypatch.setenv("FAKE_NVML_DIR", str(machine.folder))
    for gpu in (0, 1):
        machine.set(gpu, total=10_000, used=0)
    return machine
