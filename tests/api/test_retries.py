"""Second attempts: how often, after what, how soon; and the tasks that are not given one."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from faulty_workers import DiesAtOnce, DiesOnGpuZero, Flaky
from recording import Record, run

from gpu_dispatch import RetryPolicy


def attempts(folder: Path, task_id: int) -> list[float]:
    return [float(line.split()[0]) for line in (folder / str(task_id)).read_text().splitlines()]


CASES: list[tuple[str, Any, dict[str, Any], tuple[str, int], str, int]] = [
    # what, retries, options, item, outcome, attempts
    ("none by default", 0, {}, ("raise", 1), "error", 1),
    ("an error, once too few", 2, {}, ("raise", 3), "error", 3),
    ("an error, often enough", 2, {}, ("raise", 2), "success", 3),
    ("a crash, often enough", 1, {"max_crashes": 5}, ("exit", 1), "success", 2),
    ("a crash, once too few", 2, {"max_crashes": 5}, ("exit", 3), "crash", 3),
    ("a task that kills two workers is not tried again", 9, {}, ("exit", 9), "crash", 2),
    ("unless more may die of it", 9, {"max_crashes": 4}, ("exit", 9), "crash", 4),
    ("one death is enough", 9, {"max_crashes": 1}, ("exit", 9), "crash", 1),
    ("a timeout", 1, {"task_timeout": 0.2}, ("sleep", 1), "success", 2),
    ("a timeout, once too few", 1, {"task_timeout": 0.2}, ("sleep", 2), "timeout", 2),
    ("only errors", RetryPolicy(retries=3, on=("error",)), {}, ("exit", 1), "crash", 1),
    ("only crashes", RetryPolicy(retries=3, on=("crash",)), {}, ("raise", 1), "error", 1),
    ("only crashes, and one it was", RetryPolicy(retries=3, on=("crash",)), {}, ("exit", 1), "success", 2),
    ("only timeouts", RetryPolicy(retries=1, on=("timeout",)), {"task_timeout": 0.2}, ("sleep", 1), "success", 2),
    ("this exception", RetryPolicy(3, exceptions=(ConnectionResetError,)), {}, ("raise", 1), "success", 2),
    ("its base class", RetryPolicy(3, exceptions=(OSError,)), {}, ("raise", 1), "success", 2),
    ("by name", RetryPolicy(3, exceptions=("ConnectionResetError",)), {}, ("raise", 1), "success", 2),
    ("by qualified name", RetryPolicy(3, exceptions=("builtins.OSError",)), {}, ("raise", 1), "success", 2),
    ("another exception", RetryPolicy(3, exceptions=(OSError,)), {}, ("value", 1), "error", 1),
]


@pytest.mark.parametrize(
    ("retries", "options", "item", "outcome", "tries"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_what_is_tried_again_and_how_often(
    retries: Any, options: dict[str, Any], item: tuple[str, int], outcome: str, tries: int, tmp_path: Path
) -> None:
    record = run(
        Flaky,
        [item, ("raise", 0), ("raise", 0)],
        gpu_ids=[0],
        retries=retries,
        setup={"folder": str(tmp_path)},
        **options,
    )

    record.check(3)
    assert len(attempts(tmp_path, 0)) == tries
    assert {1, 2} <= set(record.successes)
    assert record.stats["retries"] == tries - 1
    if outcome == "success":
        assert record.successes[0] == tries
    elif outcome == "timeout":
        assert 0 in record.timeouts
    else:
        assert record.errors[0].kind == outcome
        assert record.errors[0].attempt == tries


def test_a_result_that_cannot_travel_is_not_worth_another_attempt(tmp_path: Path) -> None:
    class Bare(Flaky):
        def process(self, item: Any) -> Any:
            super().process(item)
            import threading

            return {"deep": [threading.Lock()]}

    record = run(Bare, [("raise", 0)], gpu_ids=[0], retries=3, setup={"folder": str(tmp_path)})

    record.check(1)
    assert record.errors[0].kind == "transport"
    assert "['deep'][0]" in record.errors[0]
    assert len(attempts(tmp_path, 0)) == 1


def test_the_back_off_doubles_and_others_work_meanwhile(tmp_path: Path) -> None:
    policy = RetryPolicy(retries=3, backoff_s=0.1)
    record = run(
        Flaky, [("raise", 3), *[("raise", 0)] * 20], gpu_ids=[0], retries=policy, setup={"folder": str(tmp_path)}
    )

    record.check(21)
    at = attempts(tmp_path, 0)
    waits = [later - sooner for sooner, later in pairwise(at)]
    assert [round(wait / 0.1) >= expected for wait, expected in zip(waits, (1, 2, 4), strict=True)] == [True] * 3
    assert waits[0] < 0.35
    others = [attempts(tmp_path, task_id)[0] for task_id in range(1, 21)]
    assert max(others) < at[1]  # none waited for the back-off of another


def test_the_back_off_has_a_ceiling() -> None:
    policy = RetryPolicy(retries=20, backoff_s=1.0, max_backoff_s=5.0)
    assert [policy.delay_s(attempt) for attempt in (1, 2, 3, 4, 20)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_only_the_running_task_is_charged_when_a_worker_dies(tmp_path: Path) -> None:
    items = [("exit" if n in (3, 17) else "raise", 9 if n in (3, 17) else 0) for n in range(40)]
    record = run(Flaky, items, gpu_ids=[0], retries=0, setup={"folder": str(tmp_path)})

    record.check(40)
    assert set(record.errors) == {3, 17}
    assert {error.kind for error in record.errors.values()} == {"crash"}
    assert Counter(len(attempts(tmp_path, task_id)) for task_id in range(40)) == {1: 40}
    assert record.stats["restarts"] == 2


def test_the_report_of_a_crash_has_its_facts_as_fields(tmp_path: Path) -> None:
    record = run(Flaky, [("exit", 9)], gpu_ids=[4], setup={"folder": str(tmp_path)})

    error = record.errors[0]
    assert (error.kind, error.attempt, error.exception) == ("crash", 1, None)
    assert error.details["task_id"] == 0
    assert error.details["worker_id"] == 4
    assert "exited with code 5" in error


def test_a_slot_that_dies_again_and_again_is_given_up_and_says_so() -> None:
    record = Record()
    with pytest.raises(Exception, match="none is left to go on") as caught:
        run(DiesAtOnce, range(50), gpu_ids=[0], max_restarts=2, record=record)

    record.check(50)
    assert "exited with code 7" in str(caught.value)
    assert all(error.kind in ("crash", "lost") for error in record.errors.values())
    assert sum(error.kind == "crash" for error in record.errors.values()) == 3
    assert record.stats["gpu_status"][0]["status"] == "out of service"


def test_the_other_slots_take_over_when_one_is_given_up() -> None:
    record = run(DiesOnGpuZero, range(60), gpu_ids=[0, 1], max_restarts=1)

    record.check(60)
    assert all(error.kind == "crash" and record.workers[task] == 0 for task, error in record.errors.items())
    assert 1 <= len(record.errors) <= 2
    assert len(record.successes) >= 58
