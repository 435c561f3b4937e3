"""Lists of records over all GPUs: as many come back, in order, and those that failed say why."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_workers import BatchScorer, DiesOnTheThird, Lengths, NeverReady, Scorer

from gpu_dispatch import AllWorkersFailed, UsageError, distribute_to_gpus, run_multi_gpu


def records(count: int) -> list[dict[str, Any]]:
    return [{"id": number, "text": f"record {number}"} for number in range(count)]


@pytest.mark.parametrize("worker_cls", [BatchScorer, Scorer], ids=["in batches", "one by one"])
def test_ten_thousand_records_with_one_in_a_hundred_failing(worker_cls: Any) -> None:
    given_in = records(10_000)
    bad = tuple(range(37, 10_000, 100))
    results = run_multi_gpu(given_in, worker_cls, n_gpus=2, bad=bad)
    assert [result["id"] for result in results] == list(range(10_000))
    failed = [result for result in results if "_error" in result]
    assert [result["id"] for result in failed] == list(bad)
    assert all(f"record {result['id']} is bad" in result["_error"] for result in failed)
    assert all(result["_error"].startswith("GPU ") for result in failed)
    assert all(result["score"] == 2 * result["id"] for result in results if "_error" not in result)
    assert {result["gpu"] for result in results if "_error" not in result} == {0, 1}
    assert given_in == records(10_000), "what was handed in is not changed"


@pytest.mark.parametrize(("how", "words"), [("exit", "exited with code 3"), ("hang", "timed out after 0.5 s")])
def test_records_that_kill_or_hang_a_worker_are_marked_and_no_other(how: str, words: str) -> None:
    results = run_multi_gpu(
        records(40), BatchScorer, n_gpus=1, batch_size=8, bad=(20,), how=how, task_timeout=0.5,
        dispatcher_options={"timeout_grace": 0.1},
    )  # fmt: skip
    assert [result["id"] for result in results if "_error" in result] == [20]
    assert words in results[20]["_error"]


def test_those_that_failed_can_be_handed_in_again() -> None:
    first = run_multi_gpu(records(20), Scorer, n_gpus=1, bad=(3, 4))
    again = run_multi_gpu([result for result in first if "_error" in result], Scorer, n_gpus=1)
    assert [(result["id"], result["score"], "_error" in result) for result in again] == [(3, 6, False), (4, 8, False)]


def test_a_result_that_is_no_record_stands_beside_it() -> None:
    results = run_multi_gpu([{"a": 1}, {"a": 1, "b": 2}], Lengths, n_gpus=1)
    assert results == [{"a": 1, "_result": 1}, {"a": 1, "b": 2, "_result": 2}]


def test_records_may_be_anything_iterable_and_anything_inside() -> None:
    assert run_multi_gpu((text for text in ("one", "three")), Lengths, n_gpus=1) == [
        {"record": "one", "_result": 3},
        {"record": "three", "_result": 5},
    ]
    (failed,) = run_multi_gpu([7], Lengths, n_gpus=1)
    assert failed["record"] == 7
    assert "has no len()" in failed["_error"]


def test_no_records_start_nothing() -> None:
    assert run_multi_gpu([], NeverReady, n_gpus=2) == []


def test_workers_that_cannot_start_are_an_error_and_not_a_list_of_failures() -> None:
    with pytest.raises(AllWorkersFailed, match="no model"):
        run_multi_gpu(records(5), NeverReady, n_gpus=2)


def test_when_the_last_worker_is_gone_what_was_done_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    options = {"max_restarts": 2, "max_crashes": 1}
    results = run_multi_gpu(records(50), DiesOnTheThird, n_gpus=1, dispatcher_options=options)
    assert len(results) == 50
    assert ["_error" in result for result in results[:3]] == [False, False, True]
    assert all("_error" in result for result in results[2:])
    assert [result["id"] for result in results] == list(range(50))


def test_cpu_workers_and_named_gpus() -> None:
    results = run_multi_gpu(records(10), Scorer, gpu_ids="cpu:2", bad=(5,))
    assert "_error" in results[5]
    results = run_multi_gpu(records(10), Scorer, gpu_ids=[6, 7])
    assert {result["gpu"] for result in results} <= {6, 7}


@pytest.mark.parametrize("n_gpus", [0, -1, True, "two", 1.5])
def test_a_number_of_gpus_that_is_none_is_refused(n_gpus: Any) -> None:
    with pytest.raises(UsageError, match="n_gpus must be >= 1"):
        run_multi_gpu(records(3), Scorer, n_gpus=n_gpus)
    with pytest.raises(ValueError, match="n_gpus must be >= 1, got"):
        distribute_to_gpus(records(3), n_gpus)


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("progress", ["auto", "tqdm"])
def test_a_bar_per_gpu_where_somebody_is_looking(monkeypatch: pytest.MonkeyPatch, progress: str) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    run_multi_gpu(records(200), Scorer, n_gpus=2, progress=progress)
    assert "GPU 0" in screen.getvalue()
    assert "GPU 1" in screen.getvalue()


def test_no_bar_where_nobody_is_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    run_multi_gpu(records(20), Scorer, n_gpus=1)
    assert screen.getvalue() == ""


@given(st.integers(0, 300), st.integers(1, 20))
def test_static_chunks_are_even_contiguous_and_complete(count: int, n_gpus: int) -> None:
    chunks = distribute_to_gpus(range(count), n_gpus)
    assert [number for chunk, _, _ in chunks for number in chunk] == list(range(count))
    assert [(gpu, position) for _, gpu, position in chunks] == [(number, number) for number in range(len(chunks))]
    assert len(chunks) <= n_gpus
    sizes = [len(chunk) for chunk, _, _ in chunks]
    assert all(size == sizes[0] for size in sizes[:-1])
    assert all(1 <= size <= sizes[0] for size in sizes)
