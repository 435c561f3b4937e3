"""What ``process_batch`` may return, and how batches are made up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_workers import AnswersOddly, Batched, Sums, TellsTasks, Texts, Unpicklable, calls
from plain_workers import Echo
from recording import run

from gpu_dispatch import Dispatcher, UsageError
from gpu_dispatch.worker import derive_task_seed


@pytest.mark.parametrize("answer", ["list", "tuple", "array", "generator"])
def test_results_may_come_as_anything_that_has_an_order(answer: str) -> None:
    record = run(AnswersOddly, range(20), [0], setup={"answer": answer}, batch_size=8)
    record.check(20)
    assert record.successes == {number: number * 10 for number in range(20)}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("none", "returned None; it must return a list"),
        ("dict", "returned a dict; it must return a list"),
        ("text", "returned a str; it must return a list"),
        ("short", "results for 4 items; it must return one per item"),
        ("long", "returned 5 results for 4 items"),
        ("number", "'int' object is not iterable"),
    ],
)
def test_an_answer_that_is_not_one_result_per_item_is_a_clear_error(answer: str, words: str) -> None:
    record = run(AnswersOddly, range(8), [0], setup={"answer": answer}, batch_size=4, batch_wait=2.0)
    record.check(8)
    assert len(record.errors) == 8
    if answer != "number":  # that one raises in the call, so the batch is halved
        assert all(words in error for error in record.errors.values())
    else:
        assert all("not iterable" in error for error in record.errors.values())


def test_an_exception_in_the_place_of_a_result_fails_just_that_task() -> None:
    record = run(AnswersOddly, range(20), [0], setup={"answer": "errors"}, batch_size=10)
    record.check(20)
    assert set(record.errors) == {0, 3, 6, 9, 12, 15, 18}
    assert all("ValueError: item" in error for error in record.errors.values())
    assert isinstance(record.errors[3].exception, ValueError)


def test_a_result_that_will_not_pickle_fails_just_that_task() -> None:
    record = run(Unpicklable, range(20), [0], batch_size=20, batch_wait=2.0)
    record.check(20)
    assert set(record.errors) == {7}
    assert record.errors[7].kind == "transport"
    assert "value['lock'] (of type lock)" in record.errors[7]


def test_an_item_that_will_not_open_fails_just_its_own_task(tmp_path: Path) -> None:
    from faulty_workers import Bomb

    items = [Bomb("unpickle", "raise") if number == 5 else number for number in range(20)]
    record = run(Batched, items, [0], setup={"log": str(tmp_path / "log")}, batch_size=20, batch_wait=0.5)
    record.check(20)
    assert set(record.errors) == {5}
    assert "ValueError: a plain error" in record.errors[5]


# --- how batches are made up -----------------------------------------------------------------------------------


def slowly(count: int, seconds: float) -> Iterator[int]:
    for number in range(count):
        time.sleep(seconds)
        yield number


def test_without_a_wait_the_device_takes_what_is_there(tmp_path: Path) -> None:
    log = tmp_path / "log"
    record = run(Batched, slowly(8, 0.03), [0], setup={"log": str(log)}, batch_size=8)
    record.check(8)
    assert len(calls(log)) >= 4


def test_with_a_wait_batches_are_full_though_items_come_slowly(tmp_path: Path) -> None:
    log = tmp_path / "log"
    record = run(Batched, slowly(16, 0.02), [0], setup={"log": str(log)}, batch_size=8, batch_wait=5.0)
    record.check(16)
    assert [len(call) for call in calls(log)] == [8, 8]


def test_the_wait_has_an_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    record = run(Batched, range(3), [0], setup={"log": str(log)}, batch_size=8, batch_wait=0.3)
    record.check(3)
    assert [len(call) for call in calls(log)] == [3]
    assert record.elapsed_s < 5


def length(item: str) -> int:
    return len(item)


def test_a_budget_makes_up_batches_by_what_items_cost(tmp_path: Path) -> None:
    log = tmp_path / "log"
    items = ["x" * (1 + 37 * number % 50) for number in range(200)]
    items[50] = "y" * 500  # more than the budget by itself
    record = run(Texts, items, [0], setup={"log": str(log)}, batch_size=64, batch_by=(length, 100), batch_wait=0.05)
    record.check(200)
    assert record.successes == {number: len(item) for number, item in enumerate(items)}
    for call in calls(log):
        assert sum(len(items[task_id]) for task_id in call) <= 100 or call == [50]
    assert len(calls(log)) < 80


def odd_cost(item: str) -> float:
    if len(item) == 3:
        raise ValueError("I cannot tell")
    return {4: float("nan"), 5: -1.0, 6: float("inf")}.get(len(item), 1.0)


def test_a_cost_that_cannot_be_told_makes_the_item_go_without_company(tmp_path: Path) -> None:
    log = tmp_path / "log"
    items = ["x" * (1 + number % 7) for number in range(70)]
    record = run(Texts, items, [0], setup={"log": str(log)}, batch_size=64, batch_by=(odd_cost, 3.0), batch_wait=0.05)
    record.check(70)
    assert len(record.successes) == 70
    assert all(len(call) == 1 for call in calls(log) if any(len(items[task_id]) in (3, 4, 5, 6) for task_id in call))


def test_large_items_with_a_cost_are_not_mixed_up(tmp_path: Path) -> None:
    """The cost is asked of the item that is then run: opened twice, its memory could have been given to another."""
    numpy = pytest.importorskip("numpy")
    items = [numpy.full(20_000 + 1000 * (number % 5), number) for number in range(120)]
    record = run(Sums, items, [0], batch_size=16, batch_by=(len, 100_000), batch_wait=0.01)
    record.check(120)
    assert record.successes == {number: (number, number) for number in range(120)}


def test_the_tasks_of_a_batch_are_known_inside(tmp_path: Path) -> None:
    record = run(TellsTasks, range(10), [0], batch_size=10, batch_wait=2.0, base_seed=7)
    record.check(10)
    ids = tuple(range(10))
    assert set(record.successes.values()) == {(0, ids, derive_task_seed(7, 0))}


# --- what is refused before anything starts -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 8}, "needs Echo.process_batch"),
        ({"batch_size": "auto"}, "needs Echo.process_batch"),
        ({"batch_by": (len, 10)}, "needs Echo.process_batch"),
        ({"batch_wait": 1.0}, "needs Echo.process_batch"),
    ],
)
def test_options_about_batches_need_a_worker_that_takes_batches(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Dispatcher(Echo, [0], **options)
