"""When a worker process cannot be started: a clear word, and nothing left half-open."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faulty_workers import FaultyWorker
from plain_workers import Echo
from recording import Record, run

from gpu_dispatch import AllWorkersFailed, Dispatcher, UsageError
from gpu_dispatch.backends.output import OutputPump
from gpu_dispatch.backends.process import WorkerProcess


@pytest.fixture
def pump() -> Iterator[OutputPump]:
    pump = OutputPump(suppress=True, log_dir=None)
    yield pump
    pump.close()


@pytest.fixture
def limits() -> Iterator[Any]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda allowed: resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_running_out_of_descriptors_at_any_point_of_a_start_leaves_none_open(pump: OutputPump, limits: Any) -> None:
    fillers = [os.open("/dev/null", os.O_RDONLY)]
    while fillers[-1] < 100:  # no gaps below: a limit of n + 1 then means one more descriptor
        fillers.append(os.dup(fillers[0]))
    before, refusals = open_descriptors(), 0
    for spare in range(1, 60):
        limits(101 + spare)
        try:
            process = WorkerProcess(0, "worker 0", os.environ, pump, arena_bytes=1 << 20, main_is_known=False)
        except OSError:
            refusals += 1
        else:
            process.bury()
            process.close()
            break
        assert open_descriptors() == before
    else:
        pytest.fail("it never started")
    for fd in fillers:
        os.close(fd)
    assert refusals > 10


def test_a_process_that_cannot_be_started_is_a_failed_setup_that_says_why(monkeypatch) -> None:
    class NoMoreProcesses(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *_: Any, **__: Any) -> None:
            raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", NoMoreProcesses)
    record = Record()
    with pytest.raises(AllWorkersFailed, match="Resource temporarily unavailable") as caught:
        run(Echo, [1, 2], record=record)

    assert str(caught.value).startswith("All workers failed during setup")
    assert len(record.setup_failures) == 2
    assert record.exits == 1


def test_a_log_folder_that_cannot_be_made_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    dispatcher = Dispatcher(Echo, [0], log_dir=tmp_path / "file" / "logs")

    with pytest.raises(UsageError, match=r"log_dir.*file/logs"):
        dispatcher.run([1], lambda *_: None)
    assert dispatcher.get_stats()["state"] == "new"
    (tmp_path / "file").unlink()
    assert dispatcher.run([1], lambda *_: None)["completed"] == 1  # and the dispatcher can still be used


@pytest.mark.parametrize(("death", "named"), [("os._exit(3)", "code 3"), ("os.kill(os.getpid(), 9)", "SIGKILL")])
def test_a_worker_that_dies_before_its_first_line_of_ours_is_a_failed_setup(
    tmp_path: Path, death: str, named: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import os\n{death}\n")
    record = Record()
    with pytest.raises(AllWorkersFailed, match=named):
        run(Echo, [1], record=record, env={"PYTHONPATH": str(tmp_path)})

    assert len(record.setup_failures) == 2
    assert record.exits == 1


def test_an_interpreter_that_is_not_there_is_a_failed_setup_that_says_why(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(AllWorkersFailed, match="no-python"):
        run(Echo, [1])


@pytest.mark.parametrize("executable", ["", None])
def test_a_program_that_embeds_python_is_told_what_is_missing(monkeypatch, executable: Any) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(AllWorkersFailed, match=r"sys\.executable"):
        run(Echo, [1])


def test_when_a_worker_cannot_be_started_again_the_others_do_its_work(limits: Any) -> None:
    record = Record()
    dispatcher = Dispatcher(FaultyWorker, [0, 1], max_restarts=2)

    def says_why() -> bool:
        states = dispatcher.get_stats()["gpu_status"].values()
        return any("could not be started" in (state["error"] or "") for state in states)

    def items() -> Iterator[Any]:
        yield from range(10)
        limits(open_descriptors())  # from now on next to nothing can be opened
        yield ("process", "exit3")
        give_up_at = time.monotonic() + 60
        while not says_why() and time.monotonic() < give_up_at:  # else the other may be through before it is tried
            time.sleep(0.01)
        yield from range(10)

    dispatcher.run(items(), **record.callbacks())
    record.stats = dispatcher.get_stats()

    record.check(21)
    assert set(record.errors) == {10}
    assert says_why()
