"""Ctrl-C and SIGTERM, by real signals to real scripts: the prompt comes back, and nothing is left behind."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from scripts import run_script, start_script

SCRIPT = """
import signal, sys, threading, time
from gpu_dispatch import Dispatcher
from plain_workers import Sleeper

class Told(Sleeper):
    def cleanup(self):
        print("cleaned up", flush=True)

class SetsUpForEver(Sleeper):
    def setup(self, gpu_id, seed):
        print("setting up", flush=True)
        time.sleep(60)

def on_exit():
    print("on_exit", flush=True)

def main(items, limit=None, **options):
    dispatcher = Dispatcher(Told, [0, 1], **options)
    told = []
    try:
        dispatcher.run(
            items,
            lambda task_id, result, worker_id: told.append(task_id),
            lambda task_id, error, worker_id: told.append(task_id),
            on_exit=on_exit,
            on_task_start=lambda task_id, worker_id: print("started", task_id, flush=True),
        )
    finally:
        stats = dispatcher.get_stats()
        print("state", stats["state"], "told", len(told), "of", stats["total"], "twice", len(told) - len(set(told)),
              "completed", stats["completed"], "cancelled", stats["cancelled"], flush=True)
"""


def start(folder: Path, last_lines: str) -> subprocess.Popen[str]:
    script = SCRIPT + '\nif __name__ == "__main__":\n    ' + last_lines + "\n"
    return start_script(folder, script)


def wait_for(script: subprocess.Popen[str], line: str, count: int = 1) -> None:
    assert script.stdout is not None
    seen = []
    while count:
        text = script.stdout.readline()
        assert text, f"ended before saying {line!r}: {seen}"
        seen.append(text)
        count -= text.startswith(line)


def end(script: subprocess.Popen[str], timeout_s: float = 20) -> tuple[int, str, str, float]:
    """(exit code, stdout, stderr, seconds it took)"""
    started = time.monotonic()
    out, err = script.communicate(timeout=timeout_s)
    return script.returncode, out, err, time.monotonic() - started


SIGNALS = [(signal.SIGINT, 130, "KeyboardInterrupt", "Ctrl-C"), (signal.SIGTERM, 143, "", "SIGTERM")]


@pytest.mark.parametrize(("signum", "code", "raised", "name"), SIGNALS, ids=["SIGINT", "SIGTERM"])
def test_running_tasks_finish_and_the_rest_is_cancelled(
    tmp_path: Path, signum: int, code: int, raised: str, name: str
) -> None:
    script = start(tmp_path, "main([0.8] * 100)")
    wait_for(script, "started", 2)
    script.send_signal(signum)
    returncode, out, err, took = end(script)

    assert returncode in (code, -signum)
    assert f"gpu_dispatch: {name}; waiting up to 3 s for 2 running tasks" in err
    assert "Interrupt again" in err
    assert raised in err
    assert out.count("cleaned up") == 2
    assert out.count("on_exit") == 1
    assert "state interrupted told 100 of 100 twice 0 completed 2 cancelled 98" in out
    assert out.index("cleaned up") < out.index("on_exit")
    assert 0.2 < took < 3


def test_the_exit_status_of_a_script_that_catches_nothing(tmp_path: Path) -> None:
    for signum, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        script = start(tmp_path, "main([0.1] * 1000)")
        wait_for(script, "started")
        script.send_signal(signum)
        returncode = end(script)[0]
        shell_status = returncode if returncode >= 0 else 128 - returncode  # as a shell shows a death by signal
        assert shell_status == code


def test_tasks_that_take_longer_than_the_drain_are_killed_when_it_is_over(tmp_path: Path) -> None:
    script = start(tmp_path, "main([60.0] * 10, drain_timeout=0.5)")
    wait_for(script, "started", 2)
    script.send_signal(signal.SIGINT)
    _, out, err, took = end(script)

    assert 0.4 < took < 2.5
    assert "waiting up to 0.5 s" in err
    assert "told 10 of 10 twice 0 completed 0 cancelled 10" in out
    assert out.count("on_exit") == 1


def test_an_interrupt_that_does_not_wake_the_waiting_thread_is_noticed_all_the_same(tmp_path: Path) -> None:
    # Python's handlers run on the main thread. A signal that another thread received, or that came just before the main
    # thread went to sleep, is noted and wakes nobody.
    script = start(
        tmp_path,
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); "
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]); "
        "main([60.0] * 10, drain_timeout=0.5)",
    )
    wait_for(script, "started", 2)
    time.sleep(0.5)
    script.send_signal(signal.SIGINT)
    _, out, err, took = end(script)

    assert took < 2.5
    assert "waiting up to 0.5 s" in err
    assert "told 10 of 10 twice 0 completed 0 cancelled 10" in out


def test_a_second_interrupt_kills_at_once(tmp_path: Path) -> None:
    script = start(tmp_path, "main([60.0] * 10, drain_timeout=30)")
    wait_for(script, "started", 2)
    script.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert script.poll() is None
    script.send_signal(signal.SIGINT)
    returncode, out, _, took = end(script)

    assert took < 1.5
    assert returncode in (130, -signal.SIGINT)
    assert out.count("on_exit") == 1


def test_a_second_interrupt_gets_out_of_a_callback_that_hangs(tmp_path: Path) -> None:
    script = start(
        tmp_path,
        "hang = lambda *_: (print('in callback', flush=True), time.sleep(60)); "
        "Dispatcher(Told, [0]).run([0.0] * 5, hang, on_exit=on_exit)",
    )
    wait_for(script, "in callback")
    script.send_signal(signal.SIGINT)
    time.sleep(0.2)
    script.send_signal(signal.SIGINT)
    _, out, _, took = end(script)

    assert took < 3
    assert out.count("on_exit") == 1


def test_a_storm_of_interrupts_ends_the_run_once(tmp_path: Path) -> None:
    script = start(tmp_path, "main([60.0] * 10, drain_timeout=30)")
    wait_for(script, "started", 2)
    for _ in range(40):
        if script.poll() is not None:
            break
        script.send_signal(signal.SIGINT)
        time.sleep(0.005)
    end(script, 10)


def test_an_interrupt_during_setup(tmp_path: Path) -> None:
    script = start(
        tmp_path,
        "Dispatcher(SetsUpForEver, [0, 1]).run([1], print, on_exit=on_exit)",
    )
    wait_for(script, "setting up")
    script.send_signal(signal.SIGINT)
    returncode, out, _, took = end(script)

    assert took < 3
    assert returncode in (130, -signal.SIGINT)
    assert out.count("on_exit") == 1


def test_a_script_may_catch_the_interrupt_and_go_on(tmp_path: Path) -> None:
    script = start(
        tmp_path,
        """try:
        main([60.0] * 10, drain_timeout=0.1)
    except KeyboardInterrupt as error:
        print("caught", type(error).__name__, flush=True)
    print("again", Dispatcher(Told, [0]).run([0.0], lambda *_: None)["completed"])
    sys.exit(7)""",
    )
    wait_for(script, "started", 2)
    script.send_signal(signal.SIGTERM)
    returncode, out, _, _ = end(script)

    assert returncode == 7
    assert "caught Terminated" in out
    assert "again 1" in out


HANDLERS = """
def mine(signum, frame):
    print("mine", signum, flush=True)

signal.signal(signal.SIGTERM, mine)
signal.signal(signal.SIGINT, signal.SIG_IGN if ignore else mine)
before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
during = []
Dispatcher(Sleeper, [0]).run(
    [0.0], lambda *_: during.append((signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)))
)
after = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
print("restored", before == after, "during", during[0][0] is before[0], during[0][1] is before[1])
"""


@pytest.mark.parametrize("ignore", [False, True])
def test_the_users_own_handlers_come_back_and_ignored_signals_stay_ignored(tmp_path: Path, ignore: bool) -> None:
    body = "".join(f"    {line}\n" for line in HANDLERS.splitlines())
    script = start(tmp_path, f"ignore = {ignore}\n{body}")
    _, out, err, _ = end(script)

    assert f"restored True during {ignore} False" in out, err


def test_in_a_thread_that_is_not_the_main_one_nothing_is_installed_and_the_run_works(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        import signal, threading
        from gpu_dispatch import Dispatcher
        from plain_workers import Echo

        if __name__ == "__main__":
            before = signal.getsignal(signal.SIGINT)
            results, handlers = [], []

            def on_success(task_id, result, worker_id):
                results.append(result)
                handlers.append(signal.getsignal(signal.SIGINT))

            def work():
                Dispatcher(Echo, [0]).run(range(5), on_success)

            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            print(sorted(results), set(handlers) == {before})
        """,
    )

    assert done.stdout == "[0, 1, 2, 3, 4] True\n", done.stderr


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupt_that_is_sent_to_every_process_of_the_job_lets_running_tasks_finish(
    tmp_path: Path, signum: int
) -> None:
    """A terminal sends Ctrl-C to the whole group; Slurm and systemd send SIGTERM to every process of a job."""
    script = start(tmp_path, "main([0.6] * 10, drain_timeout=5)")
    wait_for(script, "started", 2)
    for process in psutil.Process(script.pid).children(recursive=True):
        process.send_signal(signum)
    script.send_signal(signum)
    _, out, _, _ = end(script)

    assert "completed 2 cancelled 8" in out
    assert out.count("cleaned up") == 2


def test_the_interrupt_of_a_stream_drains_and_is_raised_in_the_loop(tmp_path: Path) -> None:
    script = start(
        tmp_path,
        """seen = []
    try:
        for outcome in Dispatcher(Told, [0, 1]).stream([0.5] * 50):
            seen.append(type(outcome).__name__)
            print("started", flush=True)
    except KeyboardInterrupt:
        print("caught", len(seen), seen.count("TaskSuccess"), flush=True)""",
    )
    wait_for(script, "started", 1)
    script.send_signal(signal.SIGINT)
    returncode, out, _, took = end(script)

    assert returncode == 0
    assert "caught 50 " in out
    assert took < 4
