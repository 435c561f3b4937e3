"""Folders of sound, and a machine with or without GPUs, for the launcher's tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
for _name in ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY"):
    os.environ.setdefault(_name, "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory) -> Path:
    import fake_nvml

    return fake_nvml.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(autouse=True)
def no_real_gpu(nvml_library, monkeypatch):
    """Whatever machine this runs on, the fake library is the one that is found, and without a state it plays absent."""
    import fake_nvml

    fake_nvml.load(nvml_library)
    for name in ("FAKE_NVML_DIR", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def four_gpus(nvml_library, no_real_gpu, tmp_path, monkeypatch):
    import fake_nvml

    gpus = fake_nvml.FakeNvml(tmp_path / "nvml", nvml_library)
    monkeypatch.setenv("FAKE_NVML_DIR", str(gpus.folder))
    return gpus


@pytest.fixture
def folder(tmp_path):
    """Makes sound files: ``folder("a.wav", 1.0, "deep/b.mp3", 2.0)``; returns the folder."""
    import sounds

    def make(*names_and_seconds):
        for name, seconds in zip(names_and_seconds[::2], names_and_seconds[1::2], strict=True):
            sounds.write(tmp_path / "in" / name, sounds.tone(seconds))
        return tmp_path / "in"

    return make
