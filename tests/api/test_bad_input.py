"""What was asked for wrongly is refused before anything starts, in words that name what was wrong."""

from __future__ import annotations

import threading
from typing import Any

import psutil
import pytest
from plain_workers import Echo

import gpu_dispatch
from gpu_dispatch import BaseWorker, Dispatcher, GPUDispatchError, RetryPolicy, UsageError
from gpu_dispatch.errors import DeviceSpecError, RunInProgress, WorkerClassError


class NoProcess(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None: ...


class WantsArguments(Echo):
    def __init__(self, model: str) -> None: ...


class Unrelated:
    def setup(self, gpu_id: int, seed: int) -> None: ...

    def process(self, item: Any) -> Any: ...


CLASSES = [
    (None, "None"),
    ("Echo", "Echo"),
    (Echo(), "not an instance"),
    (Unrelated, "Unrelated must inherit from gpu_dispatch.BaseWorker"),
    (int, "int"),
    (BaseWorker, "abstract"),
    (NoProcess, "process"),
    (WantsArguments, "model"),
]


@pytest.mark.parametrize(("worker_cls", "named"), CLASSES, ids=[str(worker_cls)[:30] for worker_cls, _ in CLASSES])
def test_a_worker_class_that_cannot_be_used(worker_cls: Any, named: str) -> None:
    with pytest.raises(WorkerClassError) as caught:
        Dispatcher(worker_cls, [0])

    assert named in str(caught.value)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)


GPU_IDS = [
    ([], "at least one"),
    ((), "at least one"),
    ("", "''"),
    ([-1], "-1"),
    ([0, 0], "0"),
    ([0, "0"], "0"),
    ([1.5], "1.5"),
    ([None], "None"),
    ([True], "True"),
    ([[0]], "[0]"),
    (None, "None"),
    (3, "3"),
    (object, "object"),
    ("0-", "0-"),
    ("5-2", "5-2"),
    ("cpu:0", "cpu:0"),
    ("cpu:x", "cpu:x"),
    ("0,,1", "0,,1"),
    ("all of them", "all of them"),
]


@pytest.mark.parametrize(("gpu_ids", "named"), GPU_IDS, ids=[repr(gpu_ids) for gpu_ids, _ in GPU_IDS])
def test_gpu_ids_that_cannot_be_meant(gpu_ids: Any, named: str) -> None:
    with pytest.raises(DeviceSpecError) as caught:
        Dispatcher(Echo, gpu_ids)

    assert named in str(caught.value)
    assert "gpu_ids" in str(caught.value)


OPTIONS = [
    ("queue_size", [0, -1, 1.5, "10", None, True]),
    ("retries", [-1, 1.5, "3", None, True]),
    ("max_restarts", [-1, 0.5, None]),
    ("max_crashes", [0, -1, None]),
    ("timeout_grace", [-1, float("nan"), float("inf"), "1", None]),
    ("setup_timeout", [0, -1, float("nan"), "1"]),
    ("drain_timeout", [-1, float("inf"), None]),
    ("cleanup_timeout", [0, -1, "x"]),
    ("env", [["A=1"], {"A": 1}, {1: "A"}, "A=1", {"A": "\0"}, {"A=B": "1"}, {"": "1"}]),
    ("backend", ["remote", None, 3]),
    ("cost", [3, "x"]),
    ("setup_concurrency", [0, -1, "x"]),
    ("workers_per_gpu", [0, -1, "many", 1.5, None]),
    ("gpus_per_worker", [0, -1, "x"]),
    ("window", [0, -1, "x"]),
    ("suppress_worker_output", [None, "yes", 1]),
    ("isolate", [None, "yes", 1]),
    ("log_dir", [3, object()]),
]


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in OPTIONS for value in values],
    ids=lambda part: part if isinstance(part, str) else repr(part)[:20],
)
def test_options_out_of_range(name: str, value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        Dispatcher(Echo, [0], **{name: value})

    assert name in str(caught.value)
    shown = repr(value) if not isinstance(value, dict | list) else repr(value)[1:-1]
    assert shown[:12] in str(caught.value)


POLICIES: list[tuple[dict[str, Any], str]] = [
    ({"retries": -1}, "-1"),
    ({"retries": 1, "backoff_s": -0.5}, "-0.5"),
    ({"retries": 1, "max_backoff_s": float("nan")}, "nan"),
    ({"retries": 1, "on": ("errors",)}, "errors"),
    ({"retries": 1, "exceptions": (3,)}, "3"),
    ({"retries": 1, "exceptions": ValueError}, "ValueError"),
]


@pytest.mark.parametrize(("fields", "named"), POLICIES, ids=[str(fields) for fields, _ in POLICIES])
def test_a_retry_policy_that_makes_no_sense(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        RetryPolicy(**fields)


def done(*_: Any) -> None:
    raise AssertionError("no callback may be called")


RUN_ARGUMENTS: list[tuple[dict[str, Any], str, str]] = [
    ({"generator": 7}, "generator", "int"),
    ({"generator": None}, "generator", "NoneType"),
    ({"generator": lambda: iter([1])}, "generator", "call it"),
    ({"on_success": None}, "on_success", "None"),
    ({"on_success": "print"}, "on_success", "print"),
    ({"on_error": 3}, "on_error", "3"),
    ({"on_timeout": "x"}, "on_timeout", "x"),
    ({"on_setup_fail": []}, "on_setup_fail", "[]"),
    ({"on_task_start": {}}, "on_task_start", "{}"),
    ({"on_exit": True}, "on_exit", "True"),
    ({"on_progress": 1}, "on_progress", "1"),
    ({"base_seed": "x"}, "base_seed", "x"),
    ({"base_seed": 1.5}, "base_seed", "1.5"),
    ({"task_timeout": 0}, "task_timeout", "0"),
    ({"task_timeout": -1}, "task_timeout", "-1"),
    ({"task_timeout": float("nan")}, "task_timeout", "nan"),
    ({"task_timeout": "1"}, "task_timeout", "1"),
    ({"total_tasks": -1}, "total_tasks", "-1"),
    ({"total_tasks": 1.5}, "total_tasks", "1.5"),
]


@pytest.mark.parametrize(
    ("arguments", "name", "named"), RUN_ARGUMENTS, ids=[f"{name}={named}" for _, name, named in RUN_ARGUMENTS]
)
def test_arguments_of_run_that_are_wrong_start_nothing(arguments: dict[str, Any], name: str, named: str) -> None:
    dispatcher = Dispatcher(Echo, [0])
    with pytest.raises(UsageError) as caught:
        dispatcher.run(**{"generator": [1], "on_success": done, **arguments})

    assert name in str(caught.value)
    assert named in str(caught.value)
    assert not psutil.Process().children(recursive=True)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("gpu-dispatch")]
    assert dispatcher.get_stats()["state"] == "new"


def test_on_success_cannot_be_left_out() -> None:
    with pytest.raises(TypeError, match="on_success"):
        Dispatcher(Echo, [0]).run([1])  # type: ignore[call-arg]


def test_arguments_for_setup_that_do_not_pickle_are_named_and_nothing_starts() -> None:
    dispatcher = Dispatcher(Echo, [0])
    with pytest.raises(UsageError, match=r"setup\(\).*lock") as caught:
        dispatcher.run([1], done, model={"lock": threading.Lock()})

    assert "['model']['lock']" in str(caught.value)
    assert not psutil.Process().children(recursive=True)


def test_a_second_run_while_one_is_going_on_is_refused_and_the_first_goes_on() -> None:
    dispatcher = Dispatcher(Echo, [0])
    refused, results = [], []

    def on_success(task_id: int, result: int, worker_id: int) -> None:
        results.append(result)
        try:
            dispatcher.run([1], done)
        except RunInProgress as error:
            refused.append(error)

    dispatcher.run(range(3), on_success)

    assert sorted(results) == [0, 1, 2]
    assert len(refused) == 3
    assert isinstance(refused[0], RuntimeError)
    assert "second Dispatcher" in str(refused[0])
    assert sorted(outcome.data for outcome in dispatcher.stream([5])) == [5]  # and then it is free again


def test_every_error_of_the_package_has_one_root_and_survives_pickling() -> None:
    import pickle

    from gpu_dispatch import errors

    made = [
        errors.UsageError("text"),
        errors.WorkerClassError("text"),
        errors.DeviceSpecError("text"),
        errors.MainGuardError("text"),
        errors.RunInProgress("text"),
        errors.AllWorkersFailed("text", ((0, "why"),)),
        errors.InternalError("text"),
    ]
    for error in made:
        twin = pickle.loads(pickle.dumps(error))
        assert isinstance(error, GPUDispatchError)
        assert (type(twin), str(twin)) == (type(error), "text")
    assert pickle.loads(pickle.dumps(made[5])).failures == ((0, "why"),)
    report = pickle.loads(pickle.dumps(errors.ErrorReport("text", kind="crash", attempt=2, details={"task_id": 7})))
    assert (report, report.kind, report.attempt, report.details) == ("text", "crash", 2, {"task_id": 7})
    assert pickle.loads(pickle.dumps(errors.Terminated())).code == 143


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Dispatchr"):
        gpu_dispatch.Dispatchr  # noqa: B018
    assert "Dispatcher" in dir(gpu_dispatch)
