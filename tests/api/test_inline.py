"""backend="inline": the same worker, the same words, in the calling process and on the calling thread."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from faulty_workers import Bomb, FaultyWorker
from plain_workers import Echo, Pid, Sleeper
from recording import Record, run

from gpu_dispatch import AllWorkersFailed, Dispatcher
from gpu_dispatch.errors import InternalError
from gpu_dispatch.scheduling import Scheduler
from gpu_dispatch.scheduling.inputs import TasksSucceeded


def inline(worker_cls: Any, items: Any, **options: Any) -> Record:
    return run(worker_cls, items, gpu_ids=options.pop("gpu_ids", [0]), backend="inline", **options)


def test_tasks_run_in_this_process_on_this_thread_and_one_at_a_time() -> None:
    record = inline(Where, range(5))

    record.check(5)
    assert set(record.successes.values()) == {(os.getpid(), threading.get_ident())}
    assert not psutil.Process().children()


class Where(Echo):
    def process(self, item: Any) -> tuple[int, int]:
        return os.getpid(), threading.get_ident()


@pytest.mark.parametrize(
    ("fault", "needle"),
    [("raise", "ValueError: a plain error"), ("mute", "Mute"), ("unusual", "Unusual"), ("sys.exit", "SystemExit: 3")],
)
def test_what_a_task_raises_is_its_failure(fault: str, needle: str) -> None:
    record = inline(FaultyWorker, [1, ("process", fault), 3])

    record.check(3)
    assert record.successes == {0: 1, 2: 3}
    assert needle in record.errors[1]


def test_items_and_results_travel_as_they_would_between_processes() -> None:
    item = {"list": [1]}
    record = inline(Echo, [item, Bomb("unpickle", "raise"), threading.Lock(), 4])

    record.check(4)
    assert record.successes[0] == item
    assert record.successes[0] is not item  # no state is shared by accident, so that it works with processes too
    assert "a plain error" in record.errors[1]
    assert record.errors[2].kind == "transport"


def test_a_setup_that_fails_says_so() -> None:
    record = Record()
    with pytest.raises(AllWorkersFailed, match="All workers failed during setup"):
        inline(FaultyWorker, [1], record=record, setup={"setup_fault": "raise"})
    assert record.exits == 1
    assert "a plain error" in record.setup_failures[0][1]


def test_a_cleanup_that_fails_is_counted() -> None:
    record = inline(FaultyWorker, [1], setup={"cleanup_fault": "raise"})
    record.check(1)
    assert record.stats["cleanup_failures"] == 1


def test_a_time_limit_is_soft_and_the_users_handler_comes_back() -> None:
    before = signal.getsignal(signal.SIGALRM)
    record = inline(Sleeper, [5.0, 0.0], task_timeout=0.2)

    record.check(2)
    assert set(record.timeouts) == {0}
    assert record.elapsed_s < 2
    assert signal.getsignal(signal.SIGALRM) is before


def test_retries_and_order() -> None:
    record = inline(FaultyWorker, [("process", "raise"), 2], retries=2)
    record.check(2)
    assert record.stats["retries"] == 2
    outcomes = list(Dispatcher(Echo, [0], backend="inline").stream(range(20), ordered=True))
    assert [outcome.data for outcome in outcomes] == list(range(20))


def test_what_callbacks_and_iterables_raise_comes_out() -> None:
    def on_success(*_: Any) -> None:
        raise ZeroDivisionError

    def items() -> Iterator[int]:
        yield 1
        raise LookupError

    exits: list[int] = []
    with pytest.raises(ZeroDivisionError):
        Dispatcher(Echo, [0], backend="inline").run(iter(int, 1), on_success, on_exit=lambda: exits.append(1))
    record = Record()
    with pytest.raises(LookupError):
        inline(Echo, items(), record=record)
    record.check(1)
    assert exits == [1]


def test_shutdown_from_a_callback_and_from_another_thread() -> None:
    dispatcher = Dispatcher(Pid, [0], backend="inline")
    assert dispatcher.run(iter(int, 1), lambda *_: dispatcher.shutdown())["completed"] >= 1
    timer = threading.Timer(0.3, dispatcher.shutdown)
    timer.start()
    started = time.monotonic()
    dispatcher.run(iter(int, 1), lambda *_: None)
    timer.join()
    assert time.monotonic() - started < 5


def test_a_stream_may_be_left_early() -> None:
    stream = Dispatcher(Echo, [0], backend="inline").stream(iter(int, 1))
    next(stream)
    stream.close()


def test_output_goes_where_it_always_goes(capsys) -> None:
    inline(Loud, ["a"])
    assert capsys.readouterr().out == "a\n"


class Loud(Echo):
    def process(self, item: str) -> None:
        print(item)


def test_starts_and_events_are_told() -> None:
    starts, events = [], []
    Dispatcher(Echo, [0], backend="inline").run(
        range(3),
        lambda *_: None,
        on_task_start=lambda task_id, worker_id: starts.append(task_id),
        on_progress=events.append,
    )
    assert starts == [0, 1, 2]
    assert {"queued", "sent", "started", "finished"} <= {event.kind for event in events}


def test_what_a_signal_handler_raises_in_the_middle_of_our_code_is_raised_as_it_is(monkeypatch) -> None:
    """With workers of their own the loop has a thread, on which no handler runs; here it has the caller's."""
    handle = Scheduler.handle

    def interrupted(self: Scheduler, what: Any, now: float) -> Any:
        if isinstance(what, TasksSucceeded):
            raise TimeoutError("of the user's")
        return handle(self, what, now)

    monkeypatch.setattr(Scheduler, "handle", interrupted)
    with pytest.raises(TimeoutError, match="of the user's"):
        inline(Echo, [1, 2])
    with pytest.raises(InternalError, match="report it: TimeoutError"):
        run(Echo, [1, 2])


def test_a_cost_that_raises_stop_iteration_does_not_pass_for_the_end_of_the_input() -> None:
    def cost(item: int) -> float:
        if item == 3:
            raise StopIteration
        return 1.0

    with pytest.raises(StopIteration):
        inline(Echo, range(10), cost=cost)
