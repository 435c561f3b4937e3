"""What is done between two tasks is charged to neither, and holds up no result."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any

import pytest
from plain_workers import Echo
from recording import run

from gpu_dispatch.runtime.flushing import Flusher
from gpu_dispatch.runtime.outbox import Outbox


class SlowToPickle:
    def __reduce__(self) -> Any:
        time.sleep(0.9)
        return int, (7,)


class PicklesSlowly(Echo):
    def process(self, item: int) -> Any:
        if item == 0:
            return SlowToPickle()
        time.sleep(0.3)
        return item


def test_the_time_to_pickle_a_result_is_not_that_of_the_next_task() -> None:
    record = run(PicklesSlowly, range(4), gpu_ids=[0], task_timeout=1.0)

    assert record.successes == {0: 7, 1: 1, 2: 2, 3: 3}


class HoldsTheInterpreter(Echo):
    def process(self, item: float) -> float:
        if item < 0.5:
            time.sleep(item)
        else:
            ctypes.PyDLL(None).usleep(int(item * 1e6))  # a call into C that does not let go of the lock
        return time.monotonic()


def test_a_result_does_not_wait_for_a_next_task_that_holds_the_interpreter() -> None:
    record = run(HoldsTheInterpreter, [0.05, 0.9], gpu_ids=[0])

    assert record.told_at[1] - record.told_at[0] > 0.5, "the first came with the second"


def test_without_a_thread_to_send_results_the_main_thread_does(monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []

    class Counted(Outbox):
        def __init__(self) -> None:
            pass

        def flush(self) -> None:
            flushed.append(threading.current_thread().name)

    def no_threads_left(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_threads_left)
    flusher = Flusher(Counted())
    flusher.ask()
    flusher.ask()

    assert flushed == ["MainThread", "MainThread"]
