"""The search after every test finds what it is there to find."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from leaks import MARK_NAME, Residue


@pytest.fixture
def before(tmp_path: Path) -> Residue:
    folder = tmp_path / "temp"
    folder.mkdir()
    return Residue.now(os.environ[MARK_NAME], folder)


def a_child() -> Iterator[None]:
    with subprocess.Popen(["sleep", "60"]) as child:
        yield
        child.kill()


def a_zombie() -> Iterator[None]:
    pid = os.posix_spawn("/bin/true", ["true"], os.environ)
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT) is None:
        pass
    yield
    os.waitpid(pid, 0)


def an_orphan() -> Iterator[None]:
    """Its parent is gone, and it is nobody's child of ours; only its environment tells where it came from."""
    script = "sleep 60 >/dev/null 2>&1 & echo $!"
    pid = int(subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout)
    yield
    os.kill(pid, signal.SIGKILL)


def a_thread() -> Iterator[None]:
    event = threading.Event()
    thread = threading.Thread(target=event.wait, name="forgotten")
    thread.start()
    yield
    event.set()
    thread.join()


def a_descriptor() -> Iterator[None]:
    fd = os.open("/proc/self/status", os.O_RDONLY)
    yield
    os.close(fd)


def a_handler() -> Iterator[None]:
    handler = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, handler)


def a_timer() -> Iterator[None]:
    handler = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 60)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, handler)


def a_variable() -> Iterator[None]:
    os.environ["FORGOTTEN"] = "1"
    yield
    del os.environ["FORGOTTEN"]


def shared_memory() -> Iterator[None]:
    path = Path(f"/dev/shm/gpu-dispatch-{os.getpid()}")
    path.touch()
    yield
    path.unlink()


LEAKS: list[tuple[Callable[[], Iterator[None]], str]] = [
    (a_child, "child process"),
    (a_zombie, "zombie"),
    (an_orphan, "with this test's mark"),
    (a_thread, "thread 'forgotten'"),
    (a_descriptor, "/proc/"),
    (a_handler, "SIGTERM was"),
    (a_timer, "real-time timer"),
    (a_variable, "FORGOTTEN"),
    (shared_memory, "/dev/shm/gpu-dispatch-"),
]


@pytest.mark.parametrize(("leak", "named"), LEAKS, ids=[leak.__name__ for leak, _ in LEAKS])
def test_it_finds(leak: Callable[[], Iterator[None]], named: str, before: Residue) -> None:
    assert before.left_behind(0.0) == []
    leaking = leak()
    next(leaking)
    found = before.left_behind(0.05)
    for _ in leaking:
        pass

    assert any(named in line for line in found), found
    assert before.left_behind() == []


def test_it_finds_a_file_in_the_temp_folder_that_every_test_has_for_itself(before: Residue) -> None:
    (before.temp_folder / "forgotten").touch()

    assert before.left_behind(0.0) == ["in the temp folder: forgotten"]
    assert Path(tempfile.gettempdir()).name.startswith("temp")


def test_it_waits_a_moment_for_what_is_about_to_end(before: Residue) -> None:
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    timer: Any = threading.Timer(0.2, release.set)
    timer.start()

    assert before.left_behind(grace_s=5.0) == []
    thread.join()
    timer.join()
