"""A device that takes 5 ms a call and 0.25 ms an item, with memory for 48, behind 8 ms of I/O per item.

The figures are those of benchmarks/simulated_gpu.py, with allowance for a machine that is busy with other things.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import simulated_gpu as gpu


@pytest.mark.parametrize("io_threads", [16, 32])
def test_batches_and_overlap_keep_the_device_busy(io_threads: int) -> None:
    got = gpu.measure(gpu.with_gpu_dispatch(gpu.Overlapped, batch_size="auto", io_threads=io_threads), 8000)
    assert got.lost == 0
    assert got.late_oom == 0, "out of memory only while learning"
    assert got.oom <= 4
    assert got.busy > 0.75  # measured: 0.94 and more, on a machine that is busy
    assert got.items_per_s > 1000
    assert got.mean_batch > (12 if io_threads == 16 else 24)


def test_the_same_device_without_batches_and_overlap() -> None:
    got = gpu.measure(gpu.with_gpu_dispatch(gpu.OneByOne), 150)
    assert got.lost == 0
    assert got.busy < 0.4
    assert got.items_per_s < 80


def test_figures_are_taken_from_what_the_device_did(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    log.write_text("0.0 1\n0.5 0\n1.0 20\n1.02 40\n1.04 0\n1.06 4\n")
    got = gpu.judge(log, lost=2)
    assert (got.oom, got.late_oom, got.lost) == (2, 1, 2)
    assert got.busy == pytest.approx((0.010 + 0.015) / 0.06)
    assert got.items_per_s == pytest.approx(60 / 0.06)
