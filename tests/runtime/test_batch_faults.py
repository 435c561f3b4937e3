"""A batch of 64 with one bad task in it: 63 succeed, one is reported, and it takes few calls to find it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from batch_workers import Batched, Fragile, FragileOneByOne, calls
from recording import Record, run

COUNT = 64
MOST_CALLS = 2 * math.log2(COUNT) + 2
LIMIT = {"task_timeout": 0.5, "timeout_grace": 0.2}


def batch_of_64(fault: str, guilty: int, log: Path, **options: object) -> Record:
    """Exactly one batch at first: the worker waits until it has all 64."""
    items = [fault if task_id == guilty else task_id for task_id in range(COUNT)]
    return run(Batched, items, [0], setup={"log": str(log)}, batch_size=COUNT, batch_wait=5.0, **options)


def check(record: Record, guilty: int, log: Path) -> None:
    record.check(COUNT)
    assert record.successes == {task_id: task_id * 10 for task_id in range(COUNT) if task_id != guilty}
    made = calls(log)
    assert len(made[0]) == COUNT
    assert len(made) <= MOST_CALLS, [len(call) for call in made]


@pytest.mark.parametrize("guilty", [0, 29, 63])
def test_a_task_that_raises_fails_alone(tmp_path: Path, guilty: int) -> None:
    record = batch_of_64("raise", guilty, tmp_path / "log")
    check(record, guilty, tmp_path / "log")
    error = record.errors[guilty]
    assert error.kind == "error"
    assert "ValueError: a plain error" in error
    assert isinstance(error.exception, ValueError)
    assert record.stats["restarts"] == 0


@pytest.mark.parametrize("fault", ["sys.exit", "unusual", "interrupt"])
def test_a_task_that_raises_no_ordinary_exception_fails_alone(tmp_path: Path, fault: str) -> None:
    record = batch_of_64(fault, 29, tmp_path / "log")
    check(record, 29, tmp_path / "log")
    assert record.errors[29].kind == "error"


@pytest.mark.parametrize("guilty", [0, 63])
@pytest.mark.parametrize("fault", ["segfault", "exit0"])
def test_a_task_that_kills_the_worker_fails_alone(tmp_path: Path, fault: str, guilty: int) -> None:
    record = batch_of_64(fault, guilty, tmp_path / "log")
    check(record, guilty, tmp_path / "log")
    error = record.errors[guilty]
    assert error.kind == "crash"
    assert ("SIGSEGV" if fault == "segfault" else "code 0") in error
    assert f"task {guilty}" in error


def test_a_task_that_hangs_in_python_times_out_alone_and_the_worker_lives(tmp_path: Path) -> None:
    record = batch_of_64("hang", 29, tmp_path / "log", **LIMIT)
    check(record, 29, tmp_path / "log")
    assert record.timeouts == {29: 0.5}
    assert record.stats["restarts"] == 0


def test_a_task_that_hangs_in_native_code_times_out_alone(tmp_path: Path) -> None:
    """It holds the GIL: no signal handler runs, only a kill helps. Each kill costs limit, grace and a new worker."""
    record = batch_of_64("hang_gil", 29, tmp_path / "log", **LIMIT)
    check(record, 29, tmp_path / "log")
    assert record.timeouts == {29: 0.5}
    assert record.stats["restarts"] >= 6


def test_several_bad_tasks_of_different_kinds_fail_each_in_its_own_way(tmp_path: Path) -> None:
    faults = {3: "raise", 17: "segfault", 40: "hang", 41: "exit3"}
    items = [faults.get(task_id, task_id) for task_id in range(COUNT)]
    record = run(Batched, items, [0, 1], setup={"log": str(tmp_path / "log")}, batch_size=16, batch_wait=0.2, **LIMIT)
    record.check(COUNT)
    assert set(record.successes) == set(range(COUNT)) - set(faults)
    assert {task_id: error.kind for task_id, error in record.errors.items()} == {3: "error", 17: "crash", 41: "crash"}
    assert set(record.timeouts) == {40}


def test_a_poisoned_context_costs_the_guilty_task_and_its_batch_goes_to_a_new_worker(tmp_path: Path) -> None:
    items = ["bad" if task_id == 29 else task_id for task_id in range(COUNT)]
    log, mark = tmp_path / "log", tmp_path / "mark"
    setup = {"log": str(log), "mark": str(mark)}
    record = run(Fragile, items, [0], setup=setup, batch_size=COUNT, batch_wait=5.0)
    record.check(COUNT)
    assert set(record.successes) == set(range(COUNT)) - {29}
    assert record.errors[29].kind == "poisoned"
    assert "illegal memory access" in record.errors[29]
    assert len(calls(log)) <= MOST_CALLS
    assert [call for call in calls(log) if call == [29]] == [[29], [29]], "tried once more, and not oftener"


def test_a_context_that_breaks_once_costs_no_task_at_all(tmp_path: Path) -> None:
    items = ["once" if task_id == 29 else task_id for task_id in range(COUNT)]
    setup = {"log": str(tmp_path / "log"), "mark": str(tmp_path / "mark")}
    record = run(Fragile, items, [0], setup=setup, batch_size=COUNT, batch_wait=5.0)
    record.check(COUNT)
    assert not record.errors
    assert record.stats["restarts"] == 1


@pytest.mark.parametrize(("word", "errors"), [("bad", {5}), ("once", set())])
def test_a_poisoned_context_without_batches(tmp_path: Path, word: str, errors: set[int]) -> None:
    items = [word if task_id == 5 else task_id for task_id in range(20)]
    setup = {"log": str(tmp_path / "log"), "mark": str(tmp_path / "mark")}
    record = run(FragileOneByOne, items, [0, 1], setup=setup)
    record.check(20)
    assert set(record.errors) == errors
    assert record.stats["retries"] == 1, "what was queued behind it is not run in a broken context"
    assert record.stats["restarts"] <= 1 + len(errors)  # the last one may not be needed any more
    if errors:
        assert "illegal memory access" in record.errors[5]
