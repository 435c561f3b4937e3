"""Odd places to run in, and odd things that user code leaves running."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from busy_workers import EndsChildren, LeavesThingsBehind, UsesPools
from faulty_workers import FaultyWorker
from plain_workers import Echo, Sleeper
from recording import run
from scripts import run_script

from gpu_dispatch import Dispatcher
from gpu_dispatch.backends import local
from gpu_dispatch.backends import process as process_module
from gpu_dispatch.backends.process import WorkerProcess
from gpu_dispatch.scheduling import lifecycle

REPORT = """
    import os, signal, sys
    from gpu_dispatch import Dispatcher
    from faulty_workers import FaultyWorker

    def reap(*_):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    if __name__ == "__main__":
        BEFORE
        told = {}
        stats = Dispatcher(FaultyWorker, [0, 1]).run(
            [1, ("process", "exit3"), 3, ("process", "sigkill"), *range(50)],
            lambda task_id, result, worker_id: told.setdefault(task_id, "success"),
            lambda task_id, error, worker_id: told.setdefault(task_id, error.kind),
        )
        with open("report", "w") as file:
            file.write(f"{stats['completed']} {stats['crashed']} {len(told)} {stats['pending']}")
"""

PLACES = {
    "no standard streams": "[os.close(fd) for fd in (0, 1, 2)]",
    "no stdin": "os.close(0)",
    "SIGCHLD ignored": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "children reaped by somebody else": "signal.signal(signal.SIGCHLD, reap)",
    "SIGPIPE kills": "signal.signal(signal.SIGPIPE, signal.SIG_DFL)",
    "another folder": "os.makedirs('elsewhere'); os.chdir('elsewhere')",
    "streams replaced": "sys.stdout = sys.stderr = None",
    "no environment": "os.environ.clear()",
    "signals blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGTERM])",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_run_works_in(place: str, tmp_path: Path) -> None:
    folder = tmp_path / "a folder with spaces ż"
    folder.mkdir()
    done = run_script(folder, REPORT.replace("BEFORE", PLACES[place]), timeout_s=30)

    report = folder / ("elsewhere/report" if place == "another folder" else "report")
    assert report.exists(), done.stderr
    assert report.read_text() == "52 2 54 0"


@pytest.mark.parametrize(
    "flags", [("-X", "dev"), ("-O",), ("-u",), ("-P",) if sys.version_info >= (3, 11) else ("-B",)]
)
def test_a_run_works_under_the_interpreters_flags(flags: tuple[str, ...], tmp_path: Path) -> None:
    done = run_script(tmp_path, REPORT.replace("BEFORE", "pass"), flags=flags)

    assert (tmp_path / "report").read_text() == "52 2 54 0", done.stderr
    assert "ResourceWarning" not in done.stderr


@pytest.mark.parametrize("method", ["threads", "fork", "spawn", "forkserver"])
def test_a_worker_may_use_pools_of_its_own(method: str) -> None:
    record = run(UsesPools, [method, method], gpu_ids=[0])

    record.check(2)
    assert record.successes == {0: [0, 1, 4, 9, 16], 1: [0, 1, 4, 9, 16]}


@pytest.mark.parametrize("what", ["thread", "exit handler", "child"])
def test_what_a_worker_leaves_running_neither_delays_the_end_for_long_nor_survives_it(what: str) -> None:
    record = run(LeavesThingsBehind, range(10), setup={"what": what})

    record.check(10)
    assert len(record.successes) == 10
    assert not psutil.Process().children(recursive=True)
    assert record.elapsed_s < 5
    assert record.stats["cleanup_failures"] == 0


@pytest.mark.parametrize("seconds", [1e6, 1e9, 1e12])
def test_limits_that_mean_never_are_as_good_as_none(seconds: float) -> None:
    record = run(
        Sleeper,
        [0.01] * 5,
        task_timeout=seconds,
        setup_timeout=seconds,
        timeout_grace=seconds,
        cleanup_timeout=seconds,
        drain_timeout=seconds,
    )

    record.check(5)
    assert len(record.successes) == 5


def test_a_soft_timeout_reaches_its_task_though_the_parent_blocks_the_signal() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    try:
        record = run(Sleeper, [5.0, 0.0], gpu_ids=[0], task_timeout=0.2)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    record.check(2)
    assert set(record.timeouts) == {0}
    assert record.stats["restarts"] == 0


def test_many_runs_one_after_the_other_use_up_nothing() -> None:
    dispatcher = Dispatcher(Echo, [0])
    process, figures = psutil.Process(), []
    for _ in range(12):
        assert dispatcher.run([1, 2, 3], lambda *_: None)["completed"] == 3
        figures.append((process.num_fds(), threading.active_count()))

    assert len(set(figures[2:])) == 1, figures


def test_many_workers_at_once() -> None:
    record = run(Echo, range(400), gpu_ids="cpu:24")

    record.check(400)
    assert len(record.stats["gpu_status"]) == 24


def test_an_exit_in_a_callback_is_the_exit_of_the_script(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        import sys
        from gpu_dispatch import Dispatcher
        from plain_workers import Echo

        if __name__ == "__main__":
            Dispatcher(Echo, [0]).run(range(5), lambda *_: sys.exit(9), on_exit=lambda: print("on_exit"))
        """,
    )

    assert (done.returncode, done.stdout) == (9, "on_exit\n"), done.stderr


def test_a_run_in_a_thread_that_is_abandoned_dies_with_the_script(tmp_path: Path) -> None:
    started = time.monotonic()
    done = run_script(
        tmp_path,
        """
        import threading, time
        from gpu_dispatch import Dispatcher
        from plain_workers import Sleeper

        if __name__ == "__main__":
            running = threading.Event()
            work = lambda: Dispatcher(Sleeper, [0, 1]).run(
                [60.0] * 5, lambda *_: None, on_task_start=lambda *_: running.set()
            )
            threading.Thread(target=work, daemon=True).start()
            running.wait(20)
            print("leaving")
        """,
    )

    assert (done.returncode, done.stdout) == (0, "leaving\n"), done.stderr
    assert time.monotonic() - started < 10


def test_a_signal_of_the_users_own_is_handled_while_the_run_goes_on() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda signum, frame: seen.append(signum))
    try:
        record = run(Interrupting, range(50))
    finally:
        signal.signal(signal.SIGUSR1, before)

    record.check(50)
    assert len(record.successes) == 50
    assert len(seen) >= 1


class Interrupting(Echo):
    """Sends its parent a signal with every task: system calls of the parent are interrupted all the time."""

    def process(self, item: Any) -> Any:
        os.kill(os.getppid(), signal.SIGUSR1)
        return item


def test_a_fault_in_every_second_task_over_many_workers_settles_everything() -> None:
    faults = ["raise", "exit3", "sigkill", "sys.exit", "none", "none", "none", "none"]
    items = [("process", faults[number % len(faults)]) for number in range(80)]
    record = run(FaultyWorker, items, gpu_ids="cpu:4", max_restarts=1000)

    record.check(80)
    assert len(record.successes) == 40
    assert record.stats["crashed"] == 20


def test_an_iterable_that_comes_back_after_the_run_writes_into_nobodys_file(tmp_path: Path) -> None:
    """Its thread wakes the loop when it is done; the loop is gone, and another file may have that descriptor now."""
    release, closed = threading.Event(), threading.Event()

    def items() -> Any:
        yield 1
        release.wait(20)
        closed.set()

    dispatcher = Dispatcher(Echo, [0])
    dispatcher.run(items(), lambda *_: dispatcher.shutdown())
    files = [(tmp_path / str(number)).open("wb", buffering=0) for number in range(20)]
    release.set()
    assert closed.wait(10)
    dispatcher.shutdown()
    while any(thread.name == "gpu-dispatch-feeder" for thread in threading.enumerate()):
        time.sleep(0.01)
    for file in files:
        file.close()

    assert [path.name for path in tmp_path.iterdir() if path.stat().st_size] == []


def test_a_process_that_no_signal_can_end_is_left_alone_and_the_run_goes_on(monkeypatch) -> None:
    """It sits in a driver, in uninterruptible sleep; here, signals to it are lost."""
    monkeypatch.setattr(lifecycle, "KILL_PATIENCE_S", 0.3)
    monkeypatch.setattr(local, "UNDEAD_S", 0.3)
    undead: list[int] = []

    def ignore(process: WorkerProcess, signum: int) -> None:
        undead.append(process.pid)

    monkeypatch.setattr(WorkerProcess, "signal_tree", ignore)
    started = time.monotonic()
    record = run(FaultyWorker, [("process", "hang_gil"), *range(20)], task_timeout=0.3, timeout_grace=0.2)
    elapsed = time.monotonic() - started
    for pid in set(undead):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    while any(popen.poll() is None for popen in process_module._undead):
        time.sleep(0.01)
    process_module._undead.clear()

    record.check(21)
    assert set(record.timeouts) == {0}
    assert len(record.successes) >= 19  # at most those that it had not begun went with it
    assert elapsed < 6
    assert "out of service" in {worker["status"] for worker in record.stats["gpu_status"].values()}


def test_a_thousand_signals_a_second_and_threads_that_switch_all_the_time_change_nothing() -> None:
    """Every system call of the parent is interrupted, and its threads change places between any two steps."""
    before, interval = signal.signal(signal.SIGALRM, lambda *_: None), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        record = run(FaultyWorker, [*range(3000), ("process", "exit3"), *range(200)], task_timeout=20.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.setswitchinterval(interval)

    record.check(3201)
    assert set(record.errors) == {3000}


def test_what_a_worker_starts_can_still_be_ended_by_a_sigterm() -> None:
    record = run(EndsChildren, ["program", "fork"], gpu_ids=[0], task_timeout=10.0)

    record.check(2)
    assert record.successes == {0: -signal.SIGTERM, 1: -signal.SIGTERM}
