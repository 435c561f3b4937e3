"""stream() and astream(): outcomes as values, in the order of the input if wished, never more than the credit ahead."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from faulty_workers import FaultyWorker
from plain_workers import Echo, Sleeper

from gpu_dispatch import AllWorkersFailed, Dispatcher, TaskError, TaskSuccess, TaskTimeout, UsageError


def test_outcomes_come_as_values() -> None:
    items = [1, ("process", "raise"), ("process", "sleep"), ("process", "exit3"), 5]
    outcomes = {o.task_id: o for o in Dispatcher(FaultyWorker, [0, 1]).stream(items, task_timeout=0.3)}

    assert [type(outcomes[n]) for n in range(5)] == [TaskSuccess, TaskError, TaskTimeout, TaskError, TaskSuccess]
    assert outcomes[0].data == 1
    assert outcomes[2].timeout == 0.3
    assert outcomes[3].error.kind == "crash"
    assert {outcome.worker_id for outcome in outcomes.values()} <= {0, 1}


def test_ordered_means_the_order_of_the_input_whatever_fails_on_the_way() -> None:
    items: list[Any] = list(range(40))
    items[7], items[8], items[20] = ("process", "raise"), ("process", "exit3"), ("process", "sleep")
    outcomes = list(Dispatcher(FaultyWorker, [0, 1]).stream(items, ordered=True, task_timeout=0.3))

    assert [outcome.task_id for outcome in outcomes] == list(range(40))


def test_ordered_output_holds_back_no_more_than_the_credit() -> None:
    pulled: list[int] = []

    def items() -> Iterator[float]:
        for number in range(500):
            pulled.append(number)
            yield 0.7 if number == 0 else 0.0

    stream = Dispatcher(Sleeper, [0, 1], queue_size=20).stream(items(), ordered=True)
    assert next(stream).task_id == 0
    assert len(pulled) <= 21  # while the first one was awaited
    assert [outcome.task_id for outcome in stream] == list(range(1, 500))


def test_a_consumer_that_stands_still_stops_the_pulling() -> None:
    pulled: list[int] = []

    def items() -> Iterator[int]:
        for number in range(10_000):
            pulled.append(number)
            yield number

    stream = Dispatcher(Echo, [0, 1], queue_size=16).stream(items())
    next(stream)
    time.sleep(0.3)
    assert len(pulled) <= 17
    assert sum(1 for _ in stream) == 9_999


@pytest.mark.parametrize("taken", [0, 1, 100])
def test_leaving_a_stream_ends_the_run(taken: int) -> None:
    dispatcher = Dispatcher(Echo, [0, 1])
    stream = dispatcher.stream(iter(int, 1))
    for _ in range(taken):
        next(stream)
    stream.close()

    assert not psutil.Process().children(recursive=True)
    assert dispatcher.run([1], lambda *_: None)["completed"] == 1


def test_leaving_a_stream_does_not_wait_for_long_tasks() -> None:
    stream = Dispatcher(Sleeper, [0, 1]).stream([0.0, *[60.0] * 10])
    next(stream)
    started = time.monotonic()
    stream.close()
    assert time.monotonic() - started < 2


def test_a_stream_that_nobody_began_starts_nothing() -> None:
    stream = Dispatcher(Echo, [0]).stream([1, 2])
    assert not psutil.Process().children()
    del stream


def test_wrong_arguments_are_refused_when_the_stream_is_asked_for() -> None:
    with pytest.raises(UsageError, match="task_timeout"):
        Dispatcher(Echo, [0]).stream([1], task_timeout=-1)
    with pytest.raises(UsageError, match="generator"):
        Dispatcher(Echo, [0]).stream(3)  # type: ignore[arg-type]


def test_a_stream_raises_what_a_run_would() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise LookupError("in the middle")

    stream = Dispatcher(Echo, [0]).stream(items())
    assert next(stream).data == 1
    with pytest.raises(LookupError, match="in the middle"):
        next(stream)
    with pytest.raises(AllWorkersFailed):
        list(Dispatcher(FaultyWorker, [0]).stream([1], setup_fault="raise"))


def test_shutdown_in_the_loop_over_a_stream_ends_it() -> None:
    dispatcher = Dispatcher(Echo, [0, 1], queue_size=32)
    seen = []
    for outcome in dispatcher.stream(iter(int, 1)):
        seen.append(outcome.task_id)
        if len(seen) == 50:
            dispatcher.shutdown()

    assert sorted(seen) == list(range(dispatcher.get_stats()["total"]))


def test_an_exception_in_the_loop_over_a_stream_leaves_nothing_running() -> None:
    def consume() -> None:
        for _ in Dispatcher(Echo, [0, 1]).stream(iter(int, 1)):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        consume()


# --- asyncio -------------------------------------------------------------------------------------------------


def test_astream_does_not_block_the_event_loop() -> None:
    async def main() -> tuple[int, int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        ticker = asyncio.create_task(tick())
        count = 0
        async for outcome in Dispatcher(Sleeper, [0, 1]).astream([0.1] * 6):
            assert isinstance(outcome, TaskSuccess)
            count += 1
        ticker.cancel()
        return count, ticks

    count, ticks = asyncio.run(main())
    assert count == 6
    assert ticks > 15


def test_astream_in_order_and_with_a_limit() -> None:
    async def main() -> list[int]:
        stream = Dispatcher(FaultyWorker, [0, 1]).astream(
            [0, ("process", "sleep"), 2, 3], ordered=True, task_timeout=0.2
        )
        return [outcome.task_id async for outcome in stream]

    assert asyncio.run(main()) == [0, 1, 2, 3]


def test_cancelling_the_consumer_of_an_astream_ends_the_run() -> None:
    async def consume() -> None:
        async for _ in Dispatcher(Sleeper, [0, 1]).astream([0.0, 60.0, 60.0]):
            pass

    async def main() -> float:
        task = asyncio.create_task(consume())
        await asyncio.sleep(0.6)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started

    assert asyncio.run(main()) < 3
    assert not psutil.Process().children(recursive=True)


def test_leaving_an_astream_early_ends_the_run() -> None:
    async def main() -> None:
        stream = Dispatcher(Echo, [0, 1]).astream(iter(int, 1))
        async for _ in stream:
            break
        await stream.aclose()

    asyncio.run(main())
    assert not psutil.Process().children(recursive=True)


def test_shutdown_from_the_coroutine_that_consumes_does_not_deadlock() -> None:
    async def main() -> int:
        dispatcher = Dispatcher(Echo, [0, 1], queue_size=32)
        count = 0
        async for _ in dispatcher.astream(iter(int, 1)):
            count += 1
            if count == 20:
                dispatcher.shutdown()
        return count

    assert 20 <= asyncio.run(asyncio.wait_for(main(), 20)) <= 100


def test_two_streams_at_once_from_two_threads() -> None:
    results: dict[int, list[int]] = {0: [], 1: []}

    def consume(number: int) -> None:
        for outcome in Dispatcher(Echo, [number]).stream(range(500), ordered=True):
            results[number].append(outcome.data)

    threads = [threading.Thread(target=consume, args=(number,)) for number in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert results == {0: list(range(500)), 1: list(range(500))}
