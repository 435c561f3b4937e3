"""Workers that do, at a chosen moment, everything a worker should not.

Items are ``(phase, fault)`` pairs or plain values; the worker commits ``fault`` when it reaches ``phase``:

    import   while its class is being unpickled          unpickle  while the item is being opened
    setup    in setup()                                  process   in process()
    idle     from a thread, with nothing to do           pickle    while the result is being packed
    write    while a result is being written             cleanup   in cleanup()
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plain_workers import Echo

from gpu_dispatch import BaseWorker
from gpu_dispatch.transport.arena import ArenaWriter


class Unusual(BaseException):
    """Not an Exception: ``except Exception`` does not see it."""


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Demanding(Exception):
    """Pickles, and does not unpickle: its constructor wants two arguments, its state has one."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def _raise(error: BaseException) -> None:
    raise error


def _hang_in_python() -> None:
    while True:
        time.sleep(0.01)


def _sleep_for_ever() -> None:
    time.sleep(1000)


def _die_of_sighup() -> None:
    ctypes.CDLL(None).signal(signal.SIGHUP, 0)  # who runs the tests under nohup has it ignored; any thread may do this
    os.kill(os.getpid(), signal.SIGHUP)


def _busy_loop() -> None:
    while True:
        pass


def _hang_in_c_holding_the_gil() -> None:
    all(itertools.repeat(True))  # a loop in C that never looks at signals


def _hang_in_a_regex() -> None:
    re.match(r"(a+)+$", "a" * 64 + "b")


def _hang_ignoring_sigterm() -> None:
    for name in ("SIGTERM", "SIGALRM", "SIGINT", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    _hang_in_python()


def _swallow_every_exception() -> None:
    while True:
        with contextlib.suppress(Exception):
            time.sleep(0.01)


def _close_the_channel() -> None:
    os.closerange(3, 256)
    time.sleep(60)


def _close_the_output() -> None:
    os.close(1)
    os.close(2)
    sys.stdout.close()


def _use_up_descriptors() -> None:
    kept = []
    while True:
        kept.append(os.dup(0))


FAULTS: dict[str, Callable[[], None]] = {
    "raise": lambda: _raise(ValueError("a plain error")),
    "unusual": lambda: _raise(Unusual("not an Exception")),
    "sys.exit": lambda: sys.exit(3),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "generator_exit": lambda: _raise(GeneratorExit()),
    "timeout_error": lambda: _raise(TimeoutError("a socket's own")),
    "recursion": lambda: FAULTS["recursion"](),
    "memory": lambda: _raise(MemoryError()),
    "mute": lambda: _raise(Mute()),
    "demanding": lambda: _raise(Demanding("this", "that")),
    "long": lambda: _raise(ValueError("beginning" + "x" * 10_000_000 + "ending")),
    "exit0": lambda: os._exit(0),
    "exit1": lambda: os._exit(1),
    "exit3": lambda: os._exit(3),
    "segfault": lambda: ctypes.memset(8, 0, 1) and None,
    "abort": lambda: os.abort(),
    "sighup": _die_of_sighup,
    "sigkill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "sigstop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "hang": _hang_in_python,
    "sleep": _sleep_for_ever,
    "busy": _busy_loop,
    "hang_gil": _hang_in_c_holding_the_gil,
    "regex": _hang_in_a_regex,
    "hang_deaf": _hang_ignoring_sigterm,
    "hang_swallow": _swallow_every_exception,
    "descriptors": _use_up_descriptors,
    "close_channel": _close_the_channel,
    "close_stdout": _close_the_output,
    "garbage": lambda: write_to_the_channel(b"\xff" * 100),
    "none": lambda: None,
}


def write_to_the_channel(data: bytes) -> None:
    """Into every socket that this process has: one of them is the way to the parent."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                os.write(int(name), data)
    time.sleep(0.5)


def commit_while_writing(fault: str, *, through_the_channel: bool) -> None:
    """Let the next write to the parent get half-way, then commit the fault."""

    def half_a_write(fd: int, parts: Any) -> int:
        data = b"".join(parts)
        os.write(fd, data[: len(data) // 2])
        FAULTS[fault]()
        raise AssertionError("the fault was survived")

    os.writev = half_a_write
    if through_the_channel:
        ArenaWriter.place = lambda self, buffer: None  # type: ignore[method-assign]  # as when it is full


class Bomb:
    """Goes off where it is opened, or where it is packed, but not in the process that made it by hand."""

    def __init__(self, phase: str, fault: str) -> None:
        self.phase, self.fault, self.home = phase, fault, os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        if self.phase == "pickle" and os.getpid() != self.home:
            FAULTS[self.fault]()
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.phase == "unpickle":
            FAULTS[self.fault]()


class FaultyWorker(BaseWorker):
    """Appends the task's id to ``history`` before anything else: executions can be counted afterwards."""

    def setup(
        self,
        gpu_id: int,
        seed: int,
        history: str | None = None,
        setup_fault: str = "none",
        cleanup_fault: str = "none",
        only_gpu: int | None = None,
        once: str | None = None,
        idle_fault: str | None = None,
    ) -> None:
        self.history = None if history is None else os.open(history, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.guilty = only_gpu is None or only_gpu == gpu_id
        if once is not None and self.guilty:
            self.guilty = claim(once)
        self.cleanup_fault = cleanup_fault
        if self.guilty:
            FAULTS[setup_fault]()
        if idle_fault is not None and self.guilty:
            threading.Timer(0.15, FAULTS[idle_fault]).start()

    def process(self, item: Any) -> Any:
        if self.history is not None:
            os.write(self.history, f"{self.task_id}\n".encode())
        if isinstance(item, Bomb):
            return item if item.phase == "pickle" else "opened"
        if isinstance(item, tuple):
            phase, fault = item
            if phase == "process":
                FAULTS[fault]()
            elif phase == "write":
                commit_while_writing(fault, through_the_channel=False)
            elif phase == "write-large":
                commit_while_writing(fault, through_the_channel=True)
                return "x" * (8 << 20)
        return item

    def cleanup(self) -> None:
        if self.guilty:
            FAULTS[self.cleanup_fault]()


def claim(path: str) -> bool:
    """True for exactly one caller, in whatever process."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def module_that(folder: Path, fault: str, only_device: str | None = None) -> str:
    """Write a module that commits ``fault`` when a worker imports it (that of one device only, if named)."""
    name = f"commits_{re.sub('[^a-z0-9]', '_', fault)}_in_import_of_{only_device or 'all'}"
    (folder / f"{name}.py").write_text(
        "import os\n"
        "from faulty_workers import FAULTS, FaultyWorker\n"
        f"guilty = {only_device!r} in (None, os.environ.get('CUDA_VISIBLE_DEVICES'))\n"
        f"if guilty and os.getpid() != {os.getpid()}:\n"
        f"    FAULTS[{fault!r}]()\n"
        "class Worker(FaultyWorker):\n"
        "    pass\n"
    )
    return name


class Flaky(Echo):
    """Fails, in the way its item says, until it has been tried often enough. Attempts are counted in files."""

    def setup(self, gpu_id: int, seed: int, folder: str) -> None:
        self.folder = Path(folder)

    def process(self, item: tuple[str, int]) -> int:
        how, failures = item
        attempts = self.folder / str(self.task_id)
        with attempts.open("a") as file:
            file.write(f"{time.monotonic()} {os.getpid()}\n")
        attempt = len(attempts.read_text().splitlines())
        if attempt <= failures:
            if how == "raise":
                raise ConnectionResetError(f"attempt {attempt}")
            if how == "value":
                raise ValueError(f"attempt {attempt}")
            if how == "exit":
                os._exit(5)
            if how == "sleep":
                time.sleep(5)
            if how == "unpicklable":
                return lambda: (yield)  # type: ignore[return-value]
        return attempt


class DiesAtOnce(Echo):
    def process(self, item: Any) -> Any:
        os._exit(7)


class DiesOnGpuZero(Echo):
    def process(self, item: Any) -> Any:
        if self.gpu_id == 0:
            os._exit(7)
        time.sleep(0.02)
        return item


class Clocked(BaseWorker):
    """Notes the instant at which it begins a task. The monotonic clock is one for the whole machine."""

    def setup(self, gpu_id: int, seed: int, folder: str) -> None:
        self.folder = Path(folder)

    def process(self, fault: str) -> str:
        (self.folder / str(self.task_id)).write_text(str(time.monotonic()))
        FAULTS[fault]()
        return fault
