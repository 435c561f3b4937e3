"""run() as it is written down: positional order, what callbacks get, what setup gets, what comes back."""

from __future__ import annotations

import inspect
import os
import threading
import time
from typing import Any

import pytest
from plain_workers import Echo, Environment, Mixed, Pid, Seeded, Sleeper
from recording import Record, run

from gpu_dispatch import AllWorkersFailed, Dispatcher, TaskError, TaskSuccess
from gpu_dispatch.worker import derive_task_seed


def test_the_signatures_are_those_that_are_documented() -> None:
    constructor = list(inspect.signature(Dispatcher).parameters.values())
    assert [(p.name, p.default) for p in constructor[:3]] == [
        ("worker_cls", inspect.Parameter.empty),
        ("gpu_ids", inspect.Parameter.empty),
        ("queue_size", 1024),
    ]
    assert all(p.kind is p.KEYWORD_ONLY for p in constructor[3:])
    parameters = list(inspect.signature(Dispatcher.run).parameters.values())[1:]
    positional = [(p.name, p.default) for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == [
        ("generator", inspect.Parameter.empty),
        ("on_success", inspect.Parameter.empty),
        ("on_error", None),
        ("on_timeout", None),
        ("on_setup_fail", None),
        ("on_task_start", None),
        ("on_exit", None),
        ("base_seed", 42),
        ("task_timeout", None),
    ]
    assert parameters[-1].kind is inspect.Parameter.VAR_KEYWORD


def test_callbacks_in_positional_order_get_what_is_documented() -> None:
    calls: dict[str, list[tuple[Any, ...]]] = {}

    def note(name: str) -> Any:
        return lambda *values: calls.setdefault(name, []).append((*values, threading.current_thread()))

    names = ("on_success", "on_error", "on_timeout", "on_setup_fail", "on_task_start", "on_exit")
    stats = Dispatcher(Mixed, [3, 9], 16).run(
        ["fine", "raise", "sleep"], *map(note, names), 1000, 0.2, model="a path", depth=3
    )

    here = threading.current_thread()
    assert calls["on_success"] == [(0, (3, 1000, {"model": "a path", "depth": 3}), 3, here)]
    [(task_id, error, worker_id, thread)] = calls["on_error"]
    assert (task_id, worker_id, thread) == (1, 3, here)
    assert isinstance(error, str)
    assert error.startswith("Traceback")
    assert error.rstrip().endswith("ValueError: asked to")
    assert isinstance(error.exception, ValueError)
    assert calls["on_timeout"] == [(2, 0.2, 3, here)]
    [(gpu_id, text, thread)] = calls["on_setup_fail"]
    assert (gpu_id, thread) == (9, here)
    assert "OSError: no such card" in text
    assert sorted(calls["on_task_start"], key=lambda call: call[0]) == [(n, 3, here) for n in range(3)]
    assert calls["on_exit"] == [(here,)]
    assert (stats["total"], stats["completed"], stats["failed"], stats["timeouts"]) == (3, 1, 1, 1)
    assert stats["state"] == "finished"


def test_every_callback_but_on_success_may_be_left_out() -> None:
    results: list[Any] = []
    stats = Dispatcher(Mixed, [3, 9]).run(
        ["raise", "fine", "sleep"], lambda *values: results.append(values), task_timeout=0.2
    )

    assert [task_id for task_id, _, _ in results] == [1]
    assert (stats["failed"], stats["timeouts"], stats["setup_failures"]) == (1, 1, 1)


def test_on_task_start_comes_while_the_task_runs_and_before_its_outcome() -> None:
    record = Record()
    arrived: dict[int, float] = {}

    def on_task_start(task_id: int, worker_id: int) -> None:
        arrived[task_id] = time.monotonic()
        record.on_task_start(task_id, worker_id)

    dispatcher = Dispatcher(Sleeper, [0, 1])
    dispatcher.run([0.5] * 4, **record.callbacks(), on_task_start=on_task_start)

    assert sorted(record.started) == [0, 1, 2, 3]
    for task_id, at in arrived.items():
        assert 0.35 < record.told_at[task_id] - at < 1.0


def test_every_start_is_told_once_also_of_tiny_tasks_and_before_the_outcome() -> None:
    record = Record()
    dispatcher = Dispatcher(Echo, [0, 1])
    dispatcher.run(range(3000), **record.callbacks(), on_task_start=record.on_task_start)
    record.stats = dispatcher.get_stats()

    record.check(3000)
    assert sorted(record.started) == list(range(3000))
    begun = set()
    for word, task_id in record.order:
        if word == "start":
            begun.add(task_id)
        elif word == "success":
            assert task_id in begun


@pytest.mark.parametrize("items", [[], (), iter(()), range(0), {}], ids=repr)
def test_an_empty_input_ends_at_once_and_tells_on_exit(items: Any) -> None:
    record = run(Echo, items)

    record.check(0)
    assert record.elapsed_s < 3


def test_a_single_item_and_a_queue_of_one() -> None:
    record = run(Echo, ["only"], queue_size=1)
    record.check(1)
    many = run(Echo, iter(range(300)), queue_size=1)
    many.check(300)
    assert many.successes == {n: n for n in range(300)}


@pytest.mark.parametrize(
    "items", [{"a": 1, "b": 2}, "ab", ["a", "b"], {"a": None, "b": None}.keys()], ids=["dict", "str", "list", "keys"]
)
def test_anything_iterable_is_an_input(items: Any) -> None:
    record = run(Echo, items)

    record.check(2)
    assert record.successes == {0: "a", 1: "b"}


def test_an_iterable_whose_length_cannot_be_told_is_still_an_input() -> None:
    class Lazy:
        def __len__(self) -> int:
            raise NotImplementedError("who knows")

        def __iter__(self) -> Any:
            return iter(range(3))

    record = run(Echo, Lazy())

    record.check(3)
    assert record.stats["expected_total"] is None


def test_unknown_arguments_for_setup_are_the_workers_own_type_error() -> None:
    record = Record()
    with pytest.raises(AllWorkersFailed) as caught:
        run(Echo, [1], record=record, setup={"modle_path": "x"})

    message = str(caught.value)
    assert message.startswith("All workers failed during setup")
    assert message.count("TypeError") == 2
    assert message.count("unexpected keyword argument 'modle_path'") == 2
    assert record.exits == 1
    assert len(record.setup_failures) == 2


def test_workers_are_processes_of_their_own_and_are_set_up_once() -> None:
    record = run(Pid, range(50))

    record.check(50)
    pids = set(record.successes.values())
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 2
    for task_id, pid in record.successes.items():  # one process per worker id
        assert {p for t, p in record.successes.items() if record.workers[t] == record.workers[task_id]} == {pid}


def test_setup_gets_base_seed_plus_slot_and_tasks_get_seeds_of_their_own(tmp_path) -> None:
    one = run(Seeded, range(12), gpu_ids=[5], base_seed=7)
    three = run(Seeded, range(12), gpu_ids=[5, 6, 8], base_seed=7)
    retried = run(
        Seeded, [*range(11), "crash once"], gpu_ids=[5], base_seed=7, retries=1, setup={"marker": str(tmp_path / "m")}
    )
    other = run(Seeded, range(12), gpu_ids=[5], base_seed=8)

    def seeds(record: Record) -> dict[int, int]:
        record.check(12)
        assert all(task_id == value[0] for task_id, value in record.successes.items())
        return {task_id: value[1] for task_id, value in record.successes.items()}

    assert seeds(one) == seeds(three) == seeds(retried) == {n: derive_task_seed(7, n) for n in range(12)}
    assert retried.stats["retries"] == 1
    assert len(set(seeds(one).values())) == 12
    assert set(seeds(one).values()).isdisjoint(seeds(other).values())
    assert {value[2] for value in one.successes.values()} == {7}
    by_worker = {value[3]: value[2] for value in three.successes.values()}
    assert by_worker.items() <= {5: 7, 6: 8, 8: 9}.items()


def test_one_dispatcher_can_run_again_and_again() -> None:
    dispatcher = Dispatcher(Echo, [0])
    for count in (3, 0, 2):
        results: list[int] = []
        stats = dispatcher.run(range(count), lambda task_id, result, worker_id, to=results: to.append(result))
        assert sorted(results) == list(range(count))
        assert stats["total"] == stats["completed"] == count


def test_environment_and_device_are_complete_before_the_users_module_is_imported(monkeypatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    seen = run(Environment, ["MY_SETTING", "CUDA_VISIBLE_DEVICES"], gpu_ids=[3], env={"MY_SETTING": "on"})
    free = run(Environment, ["CUDA_VISIBLE_DEVICES"], gpu_ids=[3], isolate=False)

    assert seen.successes == {0: "on", 1: "3"}
    assert free.successes == {0: None}
    assert "MY_SETTING" not in os.environ
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_inline_runs_the_same_worker_in_the_calling_process() -> None:
    record = run(Mixed, ["fine", "raise", "fine"], gpu_ids=[4], backend="inline", setup={"a": 1})

    record.check(3)
    assert record.successes == {0: (4, 42, {"a": 1}), 2: (4, 42, {"a": 1})}
    assert "ValueError: asked to" in record.errors[1]
    assert run(Pid, [1], gpu_ids=[0], backend="inline").successes == {0: os.getpid()}


def test_outcome_types_are_those_of_the_protocol() -> None:
    outcomes = list(Dispatcher(Mixed, [0]).stream(["fine", "raise"]))

    assert [type(outcome) for outcome in outcomes] == [TaskSuccess, TaskError]
    assert outcomes[0] == TaskSuccess(0, (0, 42, {}), 0)
