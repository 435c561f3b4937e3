"""What a test may leave behind: nothing.

    before = Residue.now(mark)   …the test…   before.left_behind() -> one line per thing that was not there before

Looked at: processes (children, and any that carries the test's mark in its environment, however far it strayed),
zombies, threads, descriptors, signal handlers, timers, environment variables, /dev/shm, and the test's own temp folder.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

MARK_NAME = "GPU_DISPATCH_TEST_MARK"
GRACE_S = 2.0
"""How long the end of a thread or the reaping of a process may take. A leak does not go away by waiting."""
WATCHED_SIGNALS = ("SIGINT", "SIGTERM", "SIGALRM", "SIGCHLD", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGPIPE")
FOREIGN_THREADS = ("tqdm_monitor", "pytest_timeout", "asyncio_")
"""Threads that other libraries keep for the life of the process, by the beginning of their names."""
SHARED_MEMORY = Path("/dev/shm")
OUR_SHARED_NAMES = ("gpu-dispatch", "gpu_dispatch", "psm_")
FOREIGN_FILES = ("/dev/urandom", "/dev/null")


@dataclass(frozen=True)
class Residue:
    mark: str
    temp_folder: Path
    children: frozenset[int]
    threads: frozenset[int]
    descriptors: dict[int, str]
    handlers: dict[str, Any]
    environment: dict[str, str]
    shared: frozenset[str]

    @classmethod
    def now(cls, mark: str, temp_folder: Path) -> Residue:
        return cls(
            mark=mark,
            temp_folder=temp_folder,
            children=frozenset(process.pid for process in psutil.Process().children(recursive=True)),
            threads=frozenset(id(thread) for thread in threading.enumerate()),
            descriptors=_descriptors(),
            handlers=_handlers(),
            environment=dict(os.environ),
            shared=_shared(),
        )

    def left_behind(self, grace_s: float = GRACE_S) -> list[str]:
        """What is here that was not, in words; waits up to ``grace_s`` for it to go away."""
        deadline = time.monotonic() + grace_s
        while True:
            found = self._look()
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.01)

    def _look(self) -> list[str]:
        found = [
            f"child process {_describe(process)}"
            for process in psutil.Process().children(recursive=True)
            if process.pid not in self.children
        ]
        found += [f"process with this test's mark: {_describe(process)}" for process in self._marked()]
        found += [
            f"thread {thread.name!r} (daemon={thread.daemon})"
            for thread in threading.enumerate()
            if id(thread) not in self.threads and not thread.name.startswith(FOREIGN_THREADS)
        ]
        found += [
            f"descriptor {fd} → {target}"
            for fd, target in _descriptors().items()
            if self.descriptors.get(fd) != target and target not in FOREIGN_FILES
        ]
        handlers = _handlers()
        found += [
            f"{name} was {before!r}, is {handlers[name]!r}"
            for name, before in self.handlers.items()
            if handlers[name] != before
        ]
        found += [
            f"environment variable {name}: was {self.environment.get(name)!r}, is {os.environ.get(name)!r}"
            for name in sorted({*self.environment, *os.environ})
            if self.environment.get(name) != os.environ.get(name) and name != "PYTEST_CURRENT_TEST"
        ]
        found += [f"shared memory /dev/shm/{name}" for name in sorted(_shared() - self.shared)]
        found += [f"in the temp folder: {path.name}" for path in sorted(self.temp_folder.iterdir())]
        return found

    def _marked(self) -> list[psutil.Process]:
        """Processes that were started during the test, even if they are no longer our children."""
        wanted = f"{MARK_NAME}={self.mark}".encode()
        found = []
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                environment = Path(entry.path, "environ").read_bytes()
                if wanted in environment.split(b"\0"):
                    found.append(psutil.Process(int(entry.name)))
            except (OSError, psutil.NoSuchProcess):
                continue  # gone in the meantime, or not ours to read
        return found


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} ({process.status()}): {' '.join(process.cmdline())[:200]}"
    except psutil.ZombieProcess:
        return f"{process.pid}, a zombie that nobody has reaped"
    except psutil.NoSuchProcess:
        return f"{process.pid} (just gone)"


def _descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the descriptor of this very listing
    return found


def _handlers() -> dict[str, Any]:
    handlers: dict[str, Any] = {name: signal.getsignal(getattr(signal, name)) for name in WATCHED_SIGNALS}
    handlers["the real-time timer"] = signal.getitimer(signal.ITIMER_REAL)
    return handlers


def _shared() -> frozenset[str]:
    if not SHARED_MEMORY.is_dir():
        return frozenset()
    return frozenset(name for name in os.listdir(SHARED_MEMORY) if name.startswith(OUR_SHARED_NAMES))
