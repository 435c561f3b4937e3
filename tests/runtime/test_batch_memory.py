"""A device with memory for 48 items: found by trying, remembered, and never held against the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_workers import CrashingDevice, KilledForMemory, SlowDevice, SmallDevice, calls, diary
from recording import Record, run

from gpu_dispatch import Dispatcher


def ooms(log: Path) -> list[int]:
    return [int(words[1]) for words in diary(log) if words[0] == "oom"]


def run_small_device(log: Path, items: Any, gpu_ids: Any = (0,), memory: int = 48, **options: Any) -> Record:
    return run(SmallDevice, items, gpu_ids, setup={"log": str(log), "memory": memory}, **options)


def test_an_automatic_size_finds_what_fits_and_loses_nothing(tmp_path: Path) -> None:
    record = run_small_device(tmp_path / "log", range(6000), batch_size="auto")
    record.check(6000)
    assert record.successes == {number: number for number in range(6000)}
    failed = ooms(tmp_path / "log")
    assert 1 <= len(failed) <= 4
    assert len(failed) == len(set(failed)), "no size that failed is tried again"
    made = calls(tmp_path / "log")
    half = made[len(made) // 2 :]
    assert max(map(len, half)) <= 48
    assert sum(map(len, half)) / len(half) > 24, "and it is used"
    assert record.stats["gpu_status"][0]["batch_size"] >= 32


def test_a_fixed_size_that_does_not_fit_shrinks_and_loses_nothing(tmp_path: Path) -> None:
    record = run_small_device(tmp_path / "log", range(3000), batch_size=100)
    record.check(3000)
    assert not record.errors
    assert len(ooms(tmp_path / "log")) <= 6


def test_one_task_that_does_not_fit_is_an_error_that_says_so_and_the_rest_goes_on(tmp_path: Path) -> None:
    items: list[Any] = [(number, 1) for number in range(400)]
    items[200] = (200, 1000)
    record = run_small_device(tmp_path / "log", items, batch_size=16)
    record.check(400)
    assert set(record.errors) == {200}
    error = record.errors[200]
    assert error.kind == "oom"
    assert "CUDA out of memory" in error
    assert "This task alone does not fit" in error
    sizes = [len(call) for call in calls(tmp_path / "log")]
    assert sum(sizes[-10:]) / 10 > 8, "the batches after it are as large as before"


def test_larger_items_in_the_middle_cost_no_task(tmp_path: Path) -> None:
    items = [(number, 4 if 1000 <= number < 1400 else 1) for number in range(4000)]
    record = run_small_device(tmp_path / "log", items, batch_size="auto")
    record.check(4000)
    assert not record.errors


def test_a_judge_of_ones_own_decides_what_is_out_of_memory(tmp_path: Path) -> None:
    record = run_small_device(tmp_path / "log", range(200), batch_size=100, batch_wait=1.0, is_oom=is_full)
    record.check(200)
    assert not record.errors


def is_full(error: BaseException) -> bool:
    return "Tried to allocate" in str(error)


def test_what_was_learnt_is_used_by_the_next_run_of_the_same_dispatcher(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    dispatcher = Dispatcher(SmallDevice, [0], batch_size="auto")
    for log in (first, second):
        dispatcher.run(range(4000), lambda *_: None, log=str(log), memory=48)
    assert ooms(first)
    assert all(size < min(ooms(first)) for size in ooms(second)), "a size that failed, again"
    assert len(calls(second)[3]) >= 24, "it begins where the first ended"


def test_what_was_learnt_is_used_by_a_worker_that_is_restarted(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def items() -> Iterator[Any]:
        """One that ends the process, when a ceiling has been learnt and some time has passed; then as many again."""
        count, learnt_at = 0, None
        while learnt_at is None or count < learnt_at + 2000:
            if learnt_at is None and count % 100 == 0 and ooms(log):
                learnt_at = count
            yield count
            count += 1
        yield "exit3"  # not a number of items: it needs no memory
        yield from range(4000)

    record = run(CrashingDevice, items(), [0], setup={"log": str(log), "memory": 48}, batch_size="auto")
    assert len(record.errors) == 1
    lines = diary(log)
    restarts = [number for number, words in enumerate(lines) if words[0] == "setup"]
    assert len(restarts) > 1
    before, after = lines[: restarts[1]], lines[restarts[1] :]
    failed = [int(words[1]) for words in before if words[0] == "oom"]
    assert failed
    assert all(len(words) - 1 < min(failed) for words in after if words[0] == "call"), "a size that failed, again"
    assert any(len(words) > 24 for words in after if words[0] == "call"), "it begins where the first one was"


def test_a_batch_that_is_only_too_slow_costs_no_task_and_is_made_smaller(tmp_path: Path) -> None:
    """64 tasks of 20 ms in a call that may take half a second: nobody is guilty, the batch is too large."""
    log = tmp_path / "log"
    record = run(SlowDevice, range(200), [0], setup={"log": str(log)}, batch_size=64, batch_wait=0.1, task_timeout=0.5)
    record.check(200)
    assert not record.timeouts
    sizes = [len(call) for call in calls(log)]
    assert sizes[0] == 64
    assert max(sizes[10:]) < 64


@pytest.mark.parametrize("size", ["auto", 64])
def test_two_workers_share_a_run_on_small_devices(tmp_path: Path, size: int | str) -> None:
    record = run_small_device(tmp_path / "log", range(4000), gpu_ids=(0, 1), batch_size=size)
    record.check(4000)
    assert not record.errors
    assert set(record.workers.values()) == {0, 1}


def test_a_size_for_which_the_kernel_kills_the_worker_is_not_tried_for_ever(tmp_path: Path) -> None:
    """Nobody is guilty, and no exception says that memory ran out."""
    log = tmp_path / "log"
    record = run(KilledForMemory, range(3000), [0], setup={"log": str(log), "memory": 20}, batch_size="auto")
    record.check(3000)
    assert not record.errors
    assert record.stats["restarts"] <= 8
    last = [len(call) for call in calls(log)][-40:]
    assert max(last) <= 20
    assert sum(last) / len(last) > 10
