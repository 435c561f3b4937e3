"""What the driver says about the devices reaches the table."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from snapshots import snapshot

from gpu_dispatch.devices import resolve
from gpu_dispatch.ui.panels.layout import dashboard
from gpu_dispatch.ui.readings import Readings


@pytest.fixture
def fake_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    path = Path(__file__).parents[1] / "support" / "fake_nvml.py"
    spec = importlib.util.spec_from_file_location("ui_fake_nvml", path)
    assert spec is not None
    assert spec.loader is not None
    support = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(support)
    library = support.build(tmp_path)
    support.load(library)
    gpus = support.FakeNvml(tmp_path / "nvml", library, gpus=2)
    monkeypatch.setenv("FAKE_NVML_DIR", str(gpus.folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return gpus


def test_utilisation_and_memory_of_each_workers_gpu_are_shown(fake_nvml: Any) -> None:
    fake_nvml.set(0, used=1024, util=37)
    fake_nvml.set(1, used=20480, util=92)
    grants = resolve([0, 1], {})
    readings = Readings(lambda: {i: grant.physical for i, grant in enumerate(grants)})
    stats = readings.added_to(snapshot(workers=2))
    readings.close()
    text = dashboard(stats, 120, 30).text()
    assert "37%     1.0/40G" in text
    assert "92%    20.0/40G" in text


def test_without_known_devices_there_are_no_columns_for_them() -> None:
    stats = Readings(lambda: {0: ()}).added_to(snapshot(workers=1))
    assert stats["devices"] == {}
    assert stats["rss_bytes"] > 1_000_000
    assert "util" not in dashboard(stats, 200, 30).text()


def test_devices_are_not_asked_for_every_frame() -> None:
    readings = Readings(dict)
    first = readings.added_to(snapshot())
    assert readings.added_to(snapshot())["devices"] is first["devices"]
