"""However a run ends, on_exit comes once, after everything, and what went wrong is raised."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from faulty_workers import FaultyWorker
from plain_workers import Cleans, Echo, Sleeper, SlowSetup
from recording import Record, run

from gpu_dispatch import AllWorkersFailed, Dispatcher


class Ended(Exception):
    """Raised by the tests' own callbacks and generators."""


def raising_items(after: int) -> Iterator[int]:
    yield from range(after)
    raise Ended("the generator's own words")


def test_a_generator_that_raises_is_heard_after_what_it_gave_has_settled() -> None:
    record = Record()
    with pytest.raises(Ended, match="the generator's own words") as caught:
        run(Echo, raising_items(25), record=record)

    record.check(25)
    assert len(record.successes) == 25
    assert record.stats["state"] == "failed"
    assert any(entry.name == "raising_items" for entry in caught.traceback)


def test_a_generator_that_raises_at_once_or_an_iterable_that_will_not_begin() -> None:
    class Stubborn:
        def __iter__(self) -> Iterator[int]:
            raise Ended("not today")

    for items in (raising_items(0), Stubborn()):
        record = Record()
        with pytest.raises(Ended):
            run(Echo, items, record=record)
        record.check(0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration])
def test_whatever_a_generator_raises_comes_out_of_run(error: type[BaseException]) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise error()

    record = Record()
    with pytest.raises(RuntimeError if error is StopIteration else error):
        run(Echo, items(), record=record)
    record.check(1)


def test_the_generator_is_closed_on_the_way_out_and_on_the_thread_that_ran_it() -> None:
    threads: list[threading.Thread] = []

    def items() -> Iterator[int]:
        threads.append(threading.current_thread())
        try:
            while True:
                yield 1
        finally:
            threads.append(threading.current_thread())

    dispatcher = Dispatcher(Echo, [0])
    dispatcher.run(items(), lambda *_: dispatcher.shutdown())

    assert len(threads) == 2
    assert threads[0] is threads[1] is not threading.current_thread()


CALLBACKS: list[tuple[str, dict[str, Any]]] = [
    ("on_success", {}),
    ("on_error", {"items": [("process", "raise")] * 3}),
    ("on_timeout", {"items": [("process", "sleep")] * 3, "task_timeout": 0.1}),
    ("on_task_start", {}),
    ("on_progress", {}),
    ("on_setup_fail", {"setup": {"setup_fault": "raise", "only_gpu": 1}}),
]


@pytest.mark.parametrize(("name", "case"), CALLBACKS, ids=[name for name, _ in CALLBACKS])
def test_a_callback_that_raises_stops_the_run_and_is_raised_from_it(name: str, case: dict[str, Any]) -> None:
    record, pulled = Record(), []

    def raises(*_: Any) -> None:
        raise Ended(name)

    def items() -> Iterator[Any]:
        given = case.get("items")
        for number in range(100_000):
            pulled.append(number)
            yield given[number % len(given)] if given else number
            if name == "on_setup_fail":
                time.sleep(0.001)

    dispatcher = Dispatcher(FaultyWorker, [0, 1], queue_size=64, drain_timeout=1.0)
    started = time.monotonic()
    with pytest.raises(Ended, match=name) as caught:
        dispatcher.run(
            items(),
            **{**record.callbacks(), name: raises},
            task_timeout=case.get("task_timeout"),
            **case.get("setup", {}),
        )

    assert time.monotonic() - started < 5
    assert len(pulled) < 100_000
    assert record.exits == 1
    assert record.order[-1] == ("exit", None)
    assert not psutil.Process().children(recursive=True)
    stats = dispatcher.get_stats()
    assert stats["state"] == "failed"
    assert stats["pending"] == 0
    assert stats["total"] == len(pulled)
    if name in ("on_success", "on_error", "on_timeout") and hasattr(caught.value, "__notes__"):
        assert "task " in caught.value.__notes__[0]


def test_results_that_arrive_after_a_callback_raised_are_still_delivered_once() -> None:
    delivered: list[int] = []

    def on_success(task_id: int, result: float, worker_id: int) -> None:
        delivered.append(task_id)
        if len(delivered) == 1:
            raise Ended("the first")

    dispatcher = Dispatcher(Sleeper, [0, 1], drain_timeout=5.0)
    with pytest.raises(Ended, match="the first"):
        dispatcher.run([0.0, 0.4, 0.4, 0.4], on_success)

    stats = dispatcher.get_stats()
    assert len(delivered) == len(set(delivered)) == stats["completed"] >= 2  # the one that was running then
    assert stats["completed"] + stats["cancelled"] == stats["total"]


def test_when_on_exit_raises_it_is_raised_and_nothing_else_is_lost() -> None:
    def on_exit() -> None:
        raise Ended("at the door")

    dispatcher = Dispatcher(Echo, [0])
    with pytest.raises(Ended, match="at the door"):
        dispatcher.run([1], lambda *_: None, on_exit=on_exit)
    with pytest.raises(Ended, match="at the door") as caught:
        dispatcher.run(raising_items(0), lambda *_: None, on_exit=on_exit)
    assert isinstance(caught.value.__context__, Ended)
    assert dispatcher.run([1], lambda *_: None)["completed"] == 1


WAYS: dict[str, tuple[Callable[[], Iterator[Any]], dict[str, Any], type[BaseException] | None]] = {
    "done": (lambda: iter(range(5)), {}, None),
    "empty": (lambda: iter(()), {}, None),
    "generator raises": (lambda: raising_items(3), {}, Ended),
    "all setups fail": (lambda: iter(range(5)), {"setup_fault": "raise"}, AllWorkersFailed),
    "all setups die": (lambda: iter(range(5)), {"setup_fault": "exit3"}, AllWorkersFailed),
    "cleanup fails": (lambda: iter(range(5)), {"cleanup_fault": "raise"}, None),
    "every task fails": (lambda: iter([("process", "raise")] * 5), {}, None),
}


@pytest.mark.parametrize("way", WAYS)
def test_on_exit_runs_once_after_the_workers_are_gone(way: str) -> None:
    items, setup, error = WAYS[way]
    children: list[int] = []

    def on_exit() -> None:
        children.append(len(psutil.Process().children(recursive=True)))

    dispatcher = Dispatcher(FaultyWorker, [0, 1])
    if error is None:
        dispatcher.run(items(), lambda *_: None, on_exit=on_exit, **setup)
    else:
        with pytest.raises(error):
            dispatcher.run(items(), lambda *_: None, on_exit=on_exit, **setup)

    assert children == [0]


def test_cleanup_runs_once_in_every_worker_before_on_exit(tmp_path) -> None:
    seen: list[list[str]] = []
    Dispatcher(Cleans, [0, 1, 2]).run(
        range(9),
        lambda *_: None,
        on_exit=lambda: seen.append(sorted(p.name for p in tmp_path.iterdir())),
        folder=tmp_path,
    )

    assert seen == [["0", "1", "2"]]


def test_shutdown_from_a_callback_stops_pulling_and_settles_what_was_pulled() -> None:
    record, pulled = Record(), []

    def endless() -> Iterator[int]:
        number = 0
        while True:
            pulled.append(number)
            yield number
            number += 1

    dispatcher = Dispatcher(Echo, [0, 1], queue_size=32)

    def on_success(task_id: int, result: int, worker_id: int) -> None:
        record.on_success(task_id, result, worker_id)
        if len(record.successes) == 100:
            dispatcher.shutdown()

    dispatcher.run(endless(), **{**record.callbacks(), "on_success": on_success})
    record.stats = dispatcher.get_stats()

    record.check(len(pulled))
    assert len(record.successes) == len(pulled)
    assert record.stats["state"] == "finished"


def test_shutdown_from_another_thread_returns_when_the_run_is_over() -> None:
    record, running = Record(), threading.Event()
    dispatcher = Dispatcher(Echo, [0, 1], queue_size=8)
    over: list[bool] = []

    def stop() -> None:
        running.wait(10)
        dispatcher.shutdown()
        over.append(not psutil.Process().children(recursive=True))

    thread = threading.Thread(target=stop)
    thread.start()

    def endless() -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1
            if number == 50:
                running.set()

    dispatcher.run(endless(), **record.callbacks())
    thread.join(10)
    record.stats = dispatcher.get_stats()

    record.check(record.stats["total"])
    assert over == [True]


def test_shutdown_before_and_after_a_run_does_nothing() -> None:
    dispatcher = Dispatcher(Echo, [0])
    dispatcher.shutdown()
    assert dispatcher.run([1], lambda *_: None)["completed"] == 1
    dispatcher.shutdown()
    assert dispatcher.run([1], lambda *_: None)["completed"] == 1


def test_shutdown_while_workers_are_in_their_setup() -> None:
    record = Record()
    dispatcher = Dispatcher(SlowSetup, [0, 1], cleanup_timeout=0.5)
    thread = threading.Timer(0.3, dispatcher.shutdown)
    thread.start()
    started = time.monotonic()
    dispatcher.run(iter(int, 1), **record.callbacks())
    record.stats = dispatcher.get_stats()
    thread.join()

    assert time.monotonic() - started < 4
    record.check(record.stats["total"])


@pytest.mark.parametrize("how", ["shutdown", "raise"])
def test_no_item_is_taken_and_then_forgotten_when_a_run_is_stopped(how: str) -> None:
    """Somebody may be feeding us from a queue: what was taken from it must be heard of again."""
    for _ in range(6):
        record, pulled = Record(), []
        dispatcher = Dispatcher(Echo, [0], queue_size=64)

        def items() -> Iterator[int]:
            while True:
                time.sleep(0.003)
                pulled.append(len(pulled))  # noqa: B023
                yield pulled[-1]  # noqa: B023

        def on_success(task_id: int, result: int, worker_id: int) -> None:
            record.on_success(task_id, result, worker_id)  # noqa: B023
            if len(record.settled) == 3:  # noqa: B023
                if how == "shutdown":
                    dispatcher.shutdown()  # noqa: B023
                else:
                    raise Ended

        try:
            dispatcher.run(items(), **{**record.callbacks(), "on_success": on_success})
        except Ended:
            assert how == "raise"
        record.stats = dispatcher.get_stats()
        record.check(len(pulled))


def test_a_generator_that_blocks_does_not_hold_up_a_shutdown() -> None:
    release, record = threading.Event(), Record()

    def items() -> Iterator[int]:
        yield 1
        release.wait(20)

    dispatcher = Dispatcher(Echo, [0])
    started = time.monotonic()
    dispatcher.run(items(), **{**record.callbacks(), "on_success": lambda *_: dispatcher.shutdown()})
    elapsed = time.monotonic() - started
    release.set()

    assert elapsed < 3
    assert record.exits == 1


def test_shutdown_with_a_drain_timeout_cancels_what_has_not_begun() -> None:
    dispatcher = Dispatcher(Sleeper, [0, 1], queue_size=50)
    words: list[str] = []

    def on_success(task_id: int, result: object, worker_id: int) -> None:
        words.append("success")
        dispatcher.shutdown(drain_timeout=5.0)

    stats = dispatcher.run(
        itertools.repeat(0.2), on_success, lambda task_id, error, worker_id: words.append(error.kind)
    )
    assert stats["state"] == "finished"
    assert set(words) == {"success", "cancelled"}
    assert stats["total"] == len(words) == stats["completed"] + stats["cancelled"]
    assert stats["completed"] <= 6  # what ran, and what had been sent to be run next


def test_shutdown_with_a_drain_cancels_what_has_not_begun_and_lets_the_rest_finish() -> None:
    record = Record()
    dispatcher = Dispatcher(Sleeper, [0, 1], queue_size=20)
    timer = threading.Timer(1.0, dispatcher.shutdown, kwargs={"drain_timeout": 5.0})
    timer.start()
    dispatcher.run([1.2] * 20, **record.callbacks())
    timer.join()
    record.stats = dispatcher.get_stats()

    record.check(20)
    assert len(record.successes) == 2
    assert record.stats["cancelled"] == 18
    assert all(error.startswith("Cancelled:") for error in record.errors.values())
    assert record.stats["state"] == "finished"


def test_shutdown_in_a_hurry_after_a_patient_one_kills() -> None:
    record = Record()
    dispatcher = Dispatcher(Sleeper, [0, 1], queue_size=4)

    def stop() -> None:
        dispatcher.shutdown(wait=False)
        time.sleep(0.2)
        dispatcher.shutdown(drain_timeout=0.0)

    timer = threading.Timer(0.8, stop)
    timer.start()
    started = time.monotonic()
    dispatcher.run([60.0] * 10, **record.callbacks())
    elapsed = time.monotonic() - started
    timer.join()
    record.stats = dispatcher.get_stats()

    record.check(record.stats["total"])
    assert not record.successes
    assert elapsed < 4


@pytest.mark.parametrize("drain", [-1, "soon", float("nan")])
def test_shutdown_refuses_a_drain_that_makes_no_sense(drain: Any) -> None:
    dispatcher = Dispatcher(Echo, [0])
    refused: list[Exception] = []

    def on_success(*_: Any) -> None:
        try:
            dispatcher.shutdown(drain_timeout=drain)
        except ValueError as error:
            refused.append(error)

    dispatcher.run([1], on_success)
    assert "drain_timeout" in str(refused[0])
