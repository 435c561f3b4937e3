"""Values and exceptions that are fine where they are made and not where they arrive."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from gpu_dispatch import BaseWorker

PARENT = "GPU_DISPATCH_TEST_PARENT"
RUNG: list[bool] = []
"""Whether the alarm has rung in this process."""


class OpensNowhereElse:
    """Pickles, and raises when it is unpickled in the process that PARENT names."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if os.environ.get(PARENT) == str(os.getpid()):
            if self.how == "raise":
                raise ValueError("not here")
            if self.how == "exit":
                raise SystemExit("not here either")
            if self.how == "mute":
                raise Mute
            if self.how == "late":
                time.sleep(0.02)
            if self.how == "alarm" and not RUNG:
                RUNG.append(True)
                signal.raise_signal(signal.SIGALRM)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class WorkersOwn(Exception):
    """An exception of a class that the parent can import."""


class TwoArguments(Exception):
    def __init__(self, first: Any, second: Any) -> None:
        super().__init__(first)
        self.second = second


class HoldsALock(Exception):
    def __init__(self) -> None:
        super().__init__("held")
        self.lock = threading.Lock()


class Recursive(Exception):
    """Its own cause."""


class Biter(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None: ...

    def process(self, item: str) -> Any:
        made = MADE.get(item)
        if made is None:
            return item
        value = made()
        if isinstance(value, BaseException):
            raise value
        return value


def _recursive() -> Exception:
    error = Recursive("round and round")
    error.__cause__ = error
    return error


MADE: dict[str, Any] = {
    "lambda": lambda: lambda: 1,
    "lock": lambda: threading.Lock(),
    "nested lock": lambda: {"model": [1, {"guard": threading.Lock()}]},
    "generator": lambda: (n for n in range(3)),
    "module": lambda: os,
    "opens not": lambda: OpensNowhereElse("raise"),
    "opens with exit": lambda: OpensNowhereElse("exit"),
    "opens mute": lambda: OpensNowhereElse("mute"),
    "opens late": lambda: OpensNowhereElse("late"),
    "opens with an alarm": lambda: OpensNowhereElse("alarm"),
    "own error": lambda: WorkersOwn("with", "arguments"),
    "two arguments": lambda: TwoArguments("first", "second"),
    "holds a lock": HoldsALock,
    "own cause": _recursive,
    "surrogate": lambda: ValueError("half a character: \ud800"),
    "huge argument": lambda: ValueError(b"x" * 5_000_000),
}


class SecondTry(Biter):
    def setup(self, gpu_id: int, seed: int, folder: str) -> None:
        self.note = Path(folder) / "tried"

    def process(self, item: str) -> Any:
        if not self.note.exists():
            self.note.touch()
            raise ValueError("not at once")
        return super().process(item)


class OpensSlowly:
    """Sees, while it is opened in the process that PARENT names, whether another process comes to its end."""

    outlived: bool | None = None

    def __init__(self, pid: int, patience_s: float) -> None:
        self.pid, self.patience_s = pid, patience_s

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if os.environ.get(PARENT) == str(os.getpid()):
            time.sleep(self.patience_s)
            self.outlived = not Path(f"/proc/{self.pid}").exists()


class OneHangs(BaseWorker):
    def setup(self, gpu_id: int, seed: int, folder: str) -> None:
        self.note = Path(folder) / "hanging"

    def process(self, item: str) -> Any:
        if item == "hang":
            self.note.write_text(f"{os.getpid()}\n")
            all(itertools.repeat(True))  # a loop in C that never looks at signals
        while not self.note.exists() or not self.note.read_text().endswith("\n"):
            time.sleep(0.005)
        return OpensSlowly(int(self.note.read_text()), patience_s=1.2)


class Elsewhere(Biter):
    def setup(self, gpu_id: int, seed: int) -> None:
        os.environ[PARENT] = str(os.getpid())

    def process(self, item: object) -> object:
        return 1


class Unwilling:
    def __reduce__(self) -> tuple:
        raise TypeError("stays at home")
