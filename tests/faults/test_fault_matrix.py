"""Phase × fault, as data.

Whatever a worker does and wherever: the run ends, every task is told of exactly once, at most the running task is
charged, it was executed at most once, the others succeed, and the message names the cause.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from faulty_workers import Bomb, FaultyWorker, module_that
from recording import Record, executions, run

from gpu_dispatch import AllWorkersFailed, Dispatcher

TASKS = 10
GUILTY = 4
LIMIT = 0.4  # the time limit of tasks that hang
GRACE = 0.2


class Case(NamedTuple):
    phase: str
    fault: str
    word: str  # what the task is told as: error, timeout
    kind: str
    needles: tuple[str, ...] = ()  # what the message must name

    @property
    def name(self) -> str:
        return f"{self.phase}-{self.fault}"


def crash(phase: str, fault: str, *needles: str) -> Case:
    """The worker dies of it."""
    return Case(phase, fault, "error", "crash", (*needles, "worker ", "pid ", f"task {GUILTY}"))


def timeout(phase: str, fault: str) -> Case:
    return Case(phase, fault, "timeout", "timeout")


IN_A_TASK = [
    Case("process", "raise", "error", "error", ("ValueError: a plain error", "Traceback")),
    Case("process", "unusual", "error", "error", ("Unusual: not an Exception",)),
    Case("process", "sys.exit", "error", "error", ("SystemExit: 3",)),
    Case("process", "interrupt", "error", "error", ("KeyboardInterrupt",)),
    Case("process", "generator_exit", "error", "error", ("GeneratorExit",)),
    Case("process", "timeout_error", "error", "error", ("TimeoutError: a socket's own",)),
    Case("process", "recursion", "error", "error", ("RecursionError",)),
    Case("process", "memory", "error", "oom", ("MemoryError",)),
    Case("process", "mute", "error", "error", ("Mute",)),
    Case("process", "demanding", "error", "error", ("Demanding: this and that",)),
    Case("process", "long", "error", "error", ("ValueError: beginning", "ending", "left out")),
    Case("process", "descriptors", "error", "error", ("Too many open files",)),
    crash("process", "exit0", "code 0"),
    crash("process", "exit1", "code 1"),
    crash("process", "exit3", "code 3"),
    crash("process", "segfault", "SIGSEGV", "Segmentation fault"),
    crash("process", "abort", "SIGABRT"),
    crash("process", "sighup", "SIGHUP"),
    crash("process", "sigkill", "SIGKILL"),
    crash("process", "close_channel"),
    crash("process", "garbage", "something that no worker says"),
    timeout("process", "sigstop"),
    timeout("process", "hang"),
    timeout("process", "sleep"),
    timeout("process", "busy"),
    timeout("process", "hang_gil"),
    timeout("process", "regex"),
    timeout("process", "hang_deaf"),
    timeout("process", "hang_swallow"),
    Case("unpickle", "raise", "error", "error", ("ValueError: a plain error",)),
    Case("unpickle", "sys.exit", "error", "error", ("SystemExit: 3",)),
    crash("unpickle", "exit0", "code 0"),
    crash("unpickle", "sigkill", "SIGKILL"),
    timeout("unpickle", "hang"),
    timeout("unpickle", "hang_gil"),
    Case("pickle", "raise", "error", "transport", ("ValueError: a plain error",)),
    Case("pickle", "sys.exit", "error", "transport", ("SystemExit: 3",)),
    Case("pickle", "unusual", "error", "transport", ("Unusual",)),
    crash("pickle", "exit0", "code 0"),
    crash("pickle", "segfault", "SIGSEGV"),
    crash("pickle", "sigkill", "SIGKILL"),
    timeout("pickle", "hang"),
    timeout("pickle", "hang_gil"),
    crash("write-large", "exit0", "code 0"),
    crash("write-large", "exit3", "code 3"),
    crash("write-large", "sigkill", "SIGKILL"),
    crash("write-large", "segfault", "SIGSEGV"),
]


@pytest.mark.parametrize("case", IN_A_TASK, ids=lambda case: case.name)
def test_a_fault_in_a_task_costs_that_task_and_no_other(case: Case, tmp_path) -> None:
    items: list[Any] = list(range(TASKS))
    items[GUILTY] = Bomb(case.phase, case.fault) if case.phase in ("pickle", "unpickle") else (case.phase, case.fault)
    history = tmp_path / "history"
    limit = LIMIT if case.word == "timeout" else None

    record = run(FaultyWorker, items, task_timeout=limit, timeout_grace=GRACE, setup={"history": str(history)})

    record.check(TASKS)
    assert set(record.successes) == set(range(TASKS)) - {GUILTY}
    if case.word == "timeout":
        assert record.timeouts == {GUILTY: LIMIT}
    else:
        error = record.errors[GUILTY]
        assert error.kind == case.kind
        assert error.attempt == 1
        for needle in case.needles:
            assert needle in error
        assert len(error) < 100_000
    assert max(executions(history).values()) == 1
    assert record.workers[GUILTY] in (0, 1)
    assert record.stats["crashed"] == (case.kind == "crash")
    assert record.elapsed_s < 5


@pytest.mark.parametrize("fault", ["exit0", "exit3", "segfault", "sigkill"])
def test_a_finished_result_survives_the_death_of_its_worker_in_the_middle_of_writing_it(fault: str, tmp_path) -> None:
    items: list[Any] = list(range(TASKS))
    items[GUILTY] = ("write", fault)
    history = tmp_path / "history"

    record = run(FaultyWorker, items, setup={"history": str(history)})

    record.check(TASKS)
    assert set(record.successes) == set(range(TASKS))
    assert max(executions(history).values()) == 1
    assert any(worker["error"] for worker in record.stats["gpu_status"].values())  # it did die


IN_SETUP = [
    ("raise", ("ValueError: a plain error", "Traceback")),
    ("unusual", ("Unusual",)),
    ("sys.exit", ("SystemExit: 3",)),
    ("mute", ("Mute",)),
    ("exit0", ("code 0",)),
    ("exit3", ("code 3",)),
    ("segfault", ("SIGSEGV",)),
    ("sigkill", ("SIGKILL",)),
    ("close_channel", ("closed its channel",)),
    ("sigstop", ("setup", "1 s")),
    ("hang", ("setup", "1 s")),
    ("hang_gil", ("setup", "1 s")),
    ("hang_deaf", ("setup", "1 s")),
]
SETUP_LIMIT = 1.0


@pytest.mark.parametrize(("fault", "needles"), IN_SETUP, ids=[fault for fault, _ in IN_SETUP])
def test_when_one_setup_fails_the_other_workers_do_all_the_work(fault: str, needles: tuple[str, ...]) -> None:
    record = Record()
    items = _when_a_setup_has_failed(record)
    run(FaultyWorker, items, record=record, setup_timeout=SETUP_LIMIT, setup={"setup_fault": fault, "only_gpu": 1})

    record.check(TASKS)
    assert len(record.successes) == TASKS
    assert set(record.workers.values()) == {0}
    assert [gpu_id for gpu_id, _ in record.setup_failures] == [1]
    for needle in needles:
        assert needle in record.setup_failures[0][1]
    assert record.stats["setup_failures"] == 1
    assert record.stats["gpu_status"][1]["status"] == "error"
    assert record.elapsed_s < 8


@pytest.mark.parametrize(("fault", "needles"), IN_SETUP, ids=[fault for fault, _ in IN_SETUP])
def test_when_every_setup_fails_the_run_says_so_with_every_cause(fault: str, needles: tuple[str, ...]) -> None:
    record = Record()
    with pytest.raises(AllWorkersFailed) as caught:
        run(FaultyWorker, range(TASKS), record=record, setup_timeout=SETUP_LIMIT, setup={"setup_fault": fault})

    message = str(caught.value)
    assert message.startswith("All workers failed during setup")
    assert [worker_id for worker_id, _ in caught.value.failures] == [0, 1]
    for needle in needles:
        assert message.count(needle) >= 2
    assert isinstance(caught.value, RuntimeError)
    assert sorted(gpu_id for gpu_id, _ in record.setup_failures) == [0, 1]
    assert not record.settled
    assert record.exits == 1
    assert record.elapsed_s < 8


IN_IMPORT = [
    ("raise", ("ValueError: a plain error",)),
    ("sys.exit", ("SystemExit: 3",)),
    ("exit0", ("code 0",)),
    ("sigkill", ("SIGKILL",)),
    ("segfault", ("SIGSEGV",)),
    ("hang_gil", ("setup", "1 s")),
]


@pytest.mark.parametrize(("fault", "needles"), IN_IMPORT, ids=[fault for fault, _ in IN_IMPORT])
@pytest.mark.parametrize("device", ["1", None], ids=["one", "all"])
def test_a_fault_in_the_import_of_the_users_module_is_a_failed_setup(
    fault: str, needles: tuple[str, ...], device: str | None, tmp_path, monkeypatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    worker_cls = importlib.import_module(module_that(tmp_path, fault, device)).Worker

    record = Record()
    if device is None:
        with pytest.raises(AllWorkersFailed, match="All workers failed during setup"):
            run(worker_cls, range(TASKS), record=record, setup_timeout=SETUP_LIMIT)
        assert len(record.setup_failures) == 2
        assert record.exits == 1
    else:
        run(worker_cls, _when_a_setup_has_failed(record), record=record, setup_timeout=SETUP_LIMIT)
        record.check(TASKS)
        assert [gpu_id for gpu_id, _ in record.setup_failures] == [1]
        assert len(record.successes) == TASKS
    for needle in needles:
        assert needle in record.setup_failures[0][1]


@pytest.mark.parametrize("fault", ["exit0", "exit3", "segfault", "sigkill", "sighup", "garbage"])
def test_the_death_of_an_idle_worker_costs_nothing_but_a_restart(fault: str, tmp_path) -> None:
    def with_a_pause():
        yield from range(6)
        # Resumes when the killed worker's successor is being started: an event, not a guess.
        assert died.wait(10)
        yield from range(6, TASKS)

    died = _Restarted()
    record = Record()
    dispatcher = Dispatcher(FaultyWorker, [0, 1])
    dispatcher.run(
        with_a_pause(), **record.callbacks(), on_progress=died.look, idle_fault=fault, once=str(tmp_path / "once")
    )
    record.stats = dispatcher.get_stats()

    record.check(TASKS)
    assert len(record.successes) == TASKS
    assert record.stats["restarts"] == 1
    assert record.stats["crashed"] == 0


IN_CLEANUP = [
    ("raise", "ValueError: a plain error"),
    ("unusual", "Unusual"),
    ("sys.exit", "SystemExit: 3"),
    ("exit0", "code 0"),
    ("exit3", "code 3"),
    ("segfault", "SIGSEGV"),
    ("sigkill", "SIGKILL"),
    ("sigstop", "cleanup"),
    ("hang", "cleanup"),
    ("hang_gil", "cleanup"),
    ("close_stdout", None),
]


@pytest.mark.parametrize(("fault", "needle"), IN_CLEANUP, ids=[fault for fault, _ in IN_CLEANUP])
def test_a_fault_in_cleanup_costs_no_task_and_is_counted(fault: str, needle: str | None) -> None:
    record = run(FaultyWorker, range(TASKS), cleanup_timeout=0.5, setup={"cleanup_fault": fault, "only_gpu": 1})

    record.check(TASKS)
    assert len(record.successes) == TASKS
    assert record.stats["cleanup_failures"] == (needle is not None)
    worker = record.stats["gpu_status"][1]
    if needle is not None:
        assert needle in worker["error"]
        assert worker["status"] == "error"
    else:
        assert worker["status"] == "finished"
    assert record.stats["gpu_status"][0]["status"] == "finished"
    assert record.stats["restarts"] == 0
    assert record.elapsed_s < 3


def _when_a_setup_has_failed(record: Record) -> Iterator[int]:
    """All tasks but one; and the last when a setup was told as failed, so that the run is not over before."""
    yield from range(TASKS - 1)
    deadline = time.monotonic() + 10
    while not record.setup_failures and time.monotonic() < deadline:
        time.sleep(0.01)
    yield TASKS - 1


class _Restarted:
    """An event that is set by the second start of a worker."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._event = threading.Event()
        self.wait = self._event.wait

    def look(self, event) -> None:
        if event.kind == "worker_starting":
            if event.worker_id in self._starts:
                self._event.set()
            self._starts.append(event.worker_id)
