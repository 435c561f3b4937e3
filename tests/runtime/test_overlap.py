"""``preprocess`` and ``postprocess`` beside the model: ahead, bounded, and each task answerable for itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_workers import (
    ArrayPipeline,
    BreaksWhenItLooks,
    DawdlesOnGpu0,
    OneByOnePipeline,
    Pipeline,
    SaysItsTasks,
    calls,
    diary,
)
from recording import Record, run

from gpu_dispatch import Dispatcher
from gpu_dispatch.worker import derive_task_seed

BOTH = pytest.mark.parametrize("worker_cls", [Pipeline, OneByOnePipeline])
LIMIT = {"task_timeout": 0.6, "timeout_grace": 0.2}


def run_pipeline(worker_cls: Any, items: Any, log: Path | None = None, gpu_ids: Any = (0,), **options: Any) -> Record:
    setup = {"log": None if log is None else str(log), **options.pop("setup", {})}
    if worker_cls is Pipeline:
        options.setdefault("batch_size", 8)
    return run(worker_cls, items, gpu_ids, setup=setup, **options)


@BOTH
def test_every_stage_sees_every_task_once(worker_cls: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    record = run_pipeline(worker_cls, range(100), log)
    record.check(100)
    assert record.successes == {number: number * 10 for number in range(100)}
    stages = diary(log)
    for stage in ("pre", "post"):
        assert sorted(int(words[1]) for words in stages if words[0] == stage) == list(range(100))
    assert sorted(task_id for call in calls(log) for task_id in call) == list(range(100))


@BOTH
@pytest.mark.parametrize("stage", ["preprocess", "process", "postprocess"])
@pytest.mark.parametrize("fault", ["raise", "sys.exit"])
def test_an_error_in_any_stage_is_the_tasks_own(worker_cls: Any, stage: str, fault: str) -> None:
    items = [(stage, fault) if number == 20 else number for number in range(40)]
    record = run_pipeline(worker_cls, items)
    record.check(40)
    assert set(record.errors) == {20}
    assert record.errors[20].kind == "error"
    assert ("a plain error" if fault == "raise" else "SystemExit") in record.errors[20]
    assert record.stats["restarts"] == 0


@BOTH
@pytest.mark.parametrize("stage", ["preprocess", "process", "postprocess"])
def test_a_crash_in_any_stage_costs_that_task_and_no_other(worker_cls: Any, stage: str) -> None:
    items = [(stage, "segfault") if number == 20 else number for number in range(40)]
    record = run_pipeline(worker_cls, items)
    record.check(40)
    assert set(record.errors) == {20}
    assert record.errors[20].kind == "crash"
    assert "SIGSEGV" in record.errors[20]


@BOTH
@pytest.mark.parametrize("stage", ["preprocess", "process", "postprocess"])
@pytest.mark.parametrize("fault", ["hang", "hang_gil"])
def test_a_hang_in_any_stage_times_out_that_task_and_no_other(worker_cls: Any, stage: str, fault: str) -> None:
    items = [(stage, fault) if number == 20 else number for number in range(40)]
    record = run_pipeline(worker_cls, items, **LIMIT)
    record.check(40)
    assert set(record.timeouts) == {20}
    assert len(record.successes) == 39


def test_a_hang_in_a_thread_is_noticed_while_the_tasks_beside_it_go_on() -> None:
    """One of four I/O threads hangs, the others keep the model busy: the limit holds all the same."""
    record = Record()
    enough = threading.Event()

    def on_time() -> Iterator[Any]:
        yield ("preprocess", "sleep")
        started = time.monotonic()
        while time.monotonic() < started + 6 and not enough.is_set():
            time.sleep(0.005)
            if 0 in record.settled:
                enough.set()
            yield 1

    run(Pipeline, on_time(), [0], record=record, batch_size=4, queue_size=8, **LIMIT)
    assert record.timeouts == {0: 0.6}
    assert enough.is_set(), "it was told of only when the others had ended"
    assert len(record.successes) == sum(record.settled.values()) - 1


def test_preparing_is_ahead_of_the_model_and_bounded(tmp_path: Path) -> None:
    log = tmp_path / "log"
    record = run_pipeline(Pipeline, range(200), log, io_threads=3, batch_size=4, setup={"call_s": 0.02})
    record.check(200)
    ahead = most = waited = 0
    for kind, *words in diary(log):
        if kind == "pre":
            ahead += 1
        elif kind == "call":
            most = max(most, ahead)
            waited += ahead < 4
            ahead -= len(words)
    assert most <= 3 + 2 * 4
    assert waited <= 8, "the next batch is ready when the model asks for it"


def test_a_slow_last_stage_slows_the_model_down_and_not_the_memory(tmp_path: Path) -> None:
    log = tmp_path / "log"
    record = run_pipeline(Pipeline, range(120), log, io_threads=2, batch_size=4, setup={"post_s": 0.01})
    record.check(120)
    behind = most = 0
    for kind, *words in diary(log):
        if kind == "call":
            behind += len(words)
        elif kind == "post":
            behind -= 1
        most = max(most, behind)
    assert most <= 2 * 2 + 3 * 4 + 1


def test_io_runs_beside_the_model_and_not_after_it(tmp_path: Path) -> None:
    """Per task 20 ms of loading, 20 ms of saving; per batch 20 ms of the model. One after the other that takes 5 s."""
    setup = {"pre_s": 0.02, "call_s": 0.02, "post_s": 0.02}
    record = run_pipeline(Pipeline, range(120), tmp_path / "log", io_threads=8, batch_size=8, setup=setup)
    record.check(120)
    assert record.elapsed_s < 2.5


def test_tasks_that_are_not_prepared_yet_can_be_taken_back(tmp_path: Path) -> None:
    """The first worker gets most of the tasks and then dawdles: the second takes what has not been touched."""
    setup = {"log": str(tmp_path / "log")}
    record = run(DawdlesOnGpu0, range(60), [0, 1], setup=setup, batch_size=2, io_threads=1)
    record.check(60)
    by_worker = list(record.workers.values())
    assert by_worker.count(1) > 40
    assert sorted(task_id for call in calls(tmp_path / "log") for task_id in call) == list(range(60))


def test_results_in_the_order_of_the_items() -> None:
    dispatcher = Dispatcher(Pipeline, [0, 1], batch_size=8)
    results = [outcome.data for outcome in dispatcher.stream(range(200), ordered=True)]  # type: ignore[union-attr]
    assert results == [number * 10 for number in range(200)]


def test_every_stage_knows_its_own_task() -> None:
    record = run(SaysItsTasks, range(60), [0], batch_size=8, base_seed=5)
    record.check(60)
    for task_id, said in record.successes.items():
        seed = derive_task_seed(5, task_id)
        item, pre_id, pre_ids, pre_seed, batch_id, batch_ids, batch_seed, post_id, post_ids, post_seed = said
        assert (item, pre_id, pre_ids, pre_seed) == (task_id, task_id, (task_id,), seed)
        assert task_id in batch_ids
        assert (batch_id, batch_seed) == (batch_ids[0], derive_task_seed(5, batch_ids[0]))
        assert (post_id, post_ids, post_seed) == (task_id, (task_id,), seed)


def test_starts_are_told_when_preparing_begins() -> None:
    record = Record()
    dispatcher = Dispatcher(Pipeline, [0], batch_size=4)
    dispatcher.run(range(20), **record.callbacks(), on_task_start=record.on_task_start)
    record.stats = dispatcher.get_stats()
    record.check(20)
    assert sorted(record.started) == list(range(20))
    for task_id in range(20):
        assert record.order.index(("start", task_id)) < record.order.index(("success", task_id))


def test_large_items_prepared_in_threads_are_not_mixed_up() -> None:
    numpy = pytest.importorskip("numpy")
    items = [numpy.full(50_000, number) for number in range(150)]
    record = run(ArrayPipeline, items, [0, 1], batch_size=8, io_threads=4)
    record.check(150)
    assert all((array == number + 1).all() for number, array in record.successes.items())


def test_a_poisoned_context_in_a_thread_replaces_the_worker() -> None:
    items = ["broken" if number == 7 else number for number in range(30)]
    record = run(BreaksWhenItLooks, items, [0], batch_size=4)
    record.check(30)
    assert set(record.errors) == {7}
    assert record.errors[7].kind == "poisoned"
    assert record.stats["restarts"] >= 1


@pytest.mark.parametrize("backend", ["local", "inline"])
def test_a_pipeline_for_the_debugger_does_the_same(backend: str) -> None:
    record = run(Pipeline, range(40), [0], backend=backend, batch_size=4)
    record.check(40)
    assert record.successes == {number: number * 10 for number in range(40)}
