"""A time limit is kept to a fifth of a second, in Python and in C, and is never charged to the wrong task."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from faulty_workers import Clocked
from plain_workers import Careful, ClockJumps, Echo, Megabytes, Sleeper, SlowToStart
from recording import Record, run
from values_that_bite import PARENT, OneHangs

from gpu_dispatch import Dispatcher
from gpu_dispatch.scheduling import watching

LIMIT = 0.2
GRACE = 0.3
SLACK = 0.2  # what is promised


INTERRUPTIBLE = ["hang", "sleep", "busy", "regex"]
STUCK = ["hang_gil", "hang_deaf", "hang_swallow", "sigstop"]


@pytest.mark.parametrize("fault", INTERRUPTIBLE + STUCK)
def test_the_word_comes_within_a_fifth_of_a_second_of_the_limit(fault: str, tmp_path) -> None:
    record, deaths = Record(), []

    def note_deaths(event: Any) -> None:
        if event.kind == "worker_died":
            deaths.append(event.at)

    dispatcher = Dispatcher(Clocked, [0, 1], timeout_grace=GRACE)
    dispatcher.run(
        [fault, fault, "none", "none"],
        **record.callbacks(),
        task_timeout=LIMIT,
        on_progress=note_deaths,
        folder=str(tmp_path),
    )
    record.stats = dispatcher.get_stats()

    record.check(4)
    assert set(record.timeouts) == {0, 1}
    began = [float((tmp_path / str(task_id)).read_text()) for task_id in (0, 1)]
    late = [record.told_at[task_id] - began[task_id] - LIMIT for task_id in (0, 1)]
    assert min(late) >= -0.01
    assert min(late) <= SLACK  # of two: a busy machine may hold one up
    if fault in STUCK:
        killed = [died_at - at - LIMIT - GRACE for died_at, at in zip(sorted(deaths), sorted(began), strict=True)]
        assert min(killed) >= -0.01
        assert min(killed) <= SLACK
    else:
        assert not deaths  # the worker lives on


def test_a_task_may_catch_the_soft_timeout_and_clean_up_and_its_worker_lives_on() -> None:
    record = run(Careful, ["slow", "pid", "slow", "pid"], gpu_ids=[0], task_timeout=LIMIT)

    record.check(4)
    assert set(record.timeouts) == {0, 2}
    assert record.successes[1] == record.successes[3]
    assert record.stats["restarts"] == 0


def test_a_limit_of_a_millisecond_ends_tasks_and_not_workers() -> None:
    record = run(Sleeper, [0.05] * 60, task_timeout=0.001)

    record.check(60)
    assert len(record.timeouts) == 60
    assert record.stats["restarts"] == 0


def test_thousands_of_short_tasks_under_a_limit_are_never_charged() -> None:
    record = run(Echo, range(20_000), task_timeout=LIMIT)

    record.check(20_000)
    assert len(record.successes) == 20_000


def test_waiting_for_a_turn_and_for_a_setup_does_not_count() -> None:
    record = run(SlowToStart, [0.1] * 6, gpu_ids=[0], task_timeout=0.25)

    record.check(6)
    assert len(record.successes) == 6


def test_tasks_queued_behind_a_hung_one_move_to_another_worker(tmp_path) -> None:
    items = ["hang_swallow", *["none"] * 40]
    record = run(Clocked, items, task_timeout=1.0, timeout_grace=0.5, setup={"folder": str(tmp_path)}, window=8)

    record.check(41)
    assert set(record.timeouts) == {0}
    began = [float((tmp_path / str(task_id)).read_text()) for task_id in range(41)]
    assert max(began) - began[0] < 0.5  # none waited for the end of the hung one


def test_a_retried_timeout_is_told_once_after_the_last_attempt() -> None:
    record = run(Sleeper, [5, 0], gpu_ids=[0], task_timeout=LIMIT, retries=2, max_crashes=5)

    record.check(2)
    assert set(record.timeouts) == {0}
    assert record.stats["retries"] == 2
    assert record.elapsed_s >= 3 * LIMIT


def test_a_finished_result_that_waits_for_slow_callbacks_is_not_charged_to_its_task() -> None:
    """One callback is slow, results pile up, workers block while they write: that is our time, not the tasks'."""
    record = Record()
    dispatcher = Dispatcher(Megabytes, [0, 1], timeout_grace=0.1, queue_size=4000)
    dispatcher.run([0.03] * 4000, **_slow(record, 1.5, first_only=True), task_timeout=0.2)
    record.stats = dispatcher.get_stats()

    record.check(4000)
    assert not record.timeouts
    assert record.stats["restarts"] == 0


def test_a_worker_whose_results_are_not_read_is_not_taken_for_dead(monkeypatch) -> None:
    monkeypatch.setattr(watching, "UNRESPONSIVE_S", 0.25)
    record = Record()
    dispatcher = Dispatcher(Megabytes, [0, 1])
    dispatcher.run([70, 0.001, 0.001, 0.001, 0.001, 70], **_slow(record, 0.5))
    record.stats = dispatcher.get_stats()

    record.check(6)
    assert len(record.successes) == 6
    assert record.stats["restarts"] == 0


def _slow(record: Record, seconds: float, *, first_only: bool = False) -> dict[str, Any]:
    def on_success(task_id: int, result: bytes, worker_id: int) -> None:
        if not first_only or not record.settled:
            time.sleep(seconds)
        record.on_success(task_id, len(result), worker_id)

    return {**record.callbacks(), "on_success": on_success}


def test_a_slow_callback_does_not_delay_a_kill(tmp_path) -> None:
    record, deaths = Record(), []

    def hold_up(task_id: int, result: str, worker_id: int) -> None:
        time.sleep(1.5)
        record.on_success(task_id, result, worker_id)

    dispatcher = Dispatcher(Clocked, [0, 1], timeout_grace=GRACE)
    dispatcher.run(
        ["hang_gil", "none"],
        **{**record.callbacks(), "on_success": hold_up},
        task_timeout=LIMIT,
        on_progress=lambda event: deaths.append(event.at) if event.kind == "worker_died" else None,
        folder=str(tmp_path),
    )
    began = float((tmp_path / "0").read_text())

    assert set(record.timeouts) == {0}
    assert deaths[0] - began < LIMIT + GRACE + 0.5


def test_a_result_that_is_slow_to_open_does_not_delay_a_kill(tmp_path, monkeypatch) -> None:
    """To open it may run user code. That runs on the caller's thread, as callbacks do."""
    monkeypatch.setenv(PARENT, str(os.getpid()))
    record = run(OneHangs, ["hang", "open"], task_timeout=LIMIT, timeout_grace=GRACE, setup={"folder": str(tmp_path)})

    record.check(2)
    assert set(record.timeouts) == {0}
    assert record.successes[1].outlived is True


@pytest.mark.parametrize("jump_s", [86_400.0, -86_400.0])
def test_a_wall_clock_that_jumps_times_nothing_out(jump_s: float, monkeypatch) -> None:
    wall_clock, calls = time.time, iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: wall_clock() + jump_s * (next(calls) % 2))

    record = run(ClockJumps, [0.05] * 10 + [5.0], task_timeout=0.5, setup={"jump_s": jump_s})

    record.check(11)
    assert set(record.timeouts) == {10}
    assert record.elapsed_s < 5
