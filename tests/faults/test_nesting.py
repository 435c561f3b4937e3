"""Dispatchers beside, inside and below each other."""

from __future__ import annotations

import os
import threading
from typing import Any

import psutil
from nested_workers import Nested, NestedHang
from plain_workers import Echo
from recording import Record, run

from gpu_dispatch import Dispatcher


def test_two_dispatchers_in_two_threads_do_not_disturb_each_other() -> None:
    records = [Record(), Record(), Record()]

    def work(number: int) -> None:
        run(Echo, range(number * 1000, number * 1000 + 1000), record=records[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    for number, record in enumerate(records):
        record.check(1000)
        assert set(record.successes.values()) == set(range(number * 1000, number * 1000 + 1000))


def test_a_dispatcher_in_a_callback_of_another() -> None:
    inner_results: list[int] = []

    def on_success(task_id: int, result: int, worker_id: int) -> None:
        Dispatcher(Echo, [0]).run([result * 10], lambda task_id, inner, worker_id: inner_results.append(inner))

    stats = Dispatcher(Echo, [0, 1]).run(range(3), on_success)

    assert stats["completed"] == 3
    assert sorted(inner_results) == [0, 10, 20]


def test_a_dispatcher_inside_a_worker() -> None:
    record = run(Nested, [3, 4], gpu_ids=[0, 1])

    record.check(2)
    for task_id, count in ((0, 3), (1, 4)):
        from_setup, pid, pids = record.successes[task_id]
        assert from_setup == 1
        assert len(pids) == count
        assert os.getpid() not in pids
        assert pid not in pids


def test_when_a_worker_is_killed_the_workers_that_it_started_die_too() -> None:
    record = run(NestedHang, [1], gpu_ids=[0], task_timeout=1.5, timeout_grace=0.2, drain_timeout=0)

    record.check(1)
    assert set(record.timeouts) == {0}
    assert not psutil.Process().children(recursive=True)


def test_a_run_inside_on_exit() -> None:
    dispatcher, results = Dispatcher(Echo, [0]), []

    def again() -> None:
        results.append(dispatcher.run([7], lambda *_: None)["completed"])

    dispatcher.run([1, 2], lambda *_: None, on_exit=again)
    assert results == [1]


def test_an_iterable_that_runs_a_dispatcher_itself() -> None:
    def items() -> Any:
        for outcome in Dispatcher(Echo, [0]).stream(range(5)):
            yield outcome.data + 100

    record = run(Echo, items())
    record.check(5)
    assert sorted(record.successes.values()) == [100, 101, 102, 103, 104]
