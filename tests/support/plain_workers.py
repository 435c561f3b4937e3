"""Workers that do nothing wrong."""

from __future__ import annotations

import os
import sys
import time
import weakref
from typing import Any

from gpu_dispatch import BaseWorker, SoftTimeout


class Echo(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None:
        self.gpu_id, self.seed = gpu_id, seed

    def process(self, item: Any) -> Any:
        return item


class Sleeper(Echo):
    """Sleeps as many seconds as its item says."""

    def process(self, item: float) -> float:
        time.sleep(item)
        return item


class Pid(Echo):
    def process(self, item: Any) -> int:
        return os.getpid()


class Arrays(Echo):
    """Large results: an array full of the item."""

    def process(self, item: int) -> Any:
        import numpy

        return numpy.full(25_000, item)


class Megabytes(Echo):
    """As many megabytes as the item says, each time another object."""

    def process(self, item: float) -> bytes:
        return os.urandom(1024) * int(item * 1024)


class Careful(Pid):
    def process(self, item: str) -> int:
        if item == "slow":
            try:
                time.sleep(5)
            except SoftTimeout:
                return -1
        return super().process(item)


class SlowToStart(Sleeper):
    def setup(self, gpu_id: int, seed: int) -> None:
        time.sleep(0.4)


class ClockJumps(Sleeper):
    def setup(self, gpu_id: int, seed: int, jump_s: float) -> None:
        wall_clock, calls = time.time, iter(range(10**9))
        time.time = lambda: wall_clock() + jump_s * (next(calls) % 2)


class Mixed(BaseWorker):
    """Succeeds, raises or takes too long, as it is told."""

    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        if gpu_id == 9:
            raise OSError("no such card")
        self.told = (gpu_id, seed, kwargs)

    def process(self, item: str) -> Any:
        if item == "raise":
            raise ValueError("asked to")
        if item == "sleep":
            time.sleep(5)
        return self.told


class Seeded(Echo):
    def process(self, item: Any) -> Any:
        if item == "crash once" and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            os._exit(9)
        return (self.task_id, self.task_seed, self.seed, self.worker_id, self.device)

    def setup(self, gpu_id: int, seed: int, marker: str = "") -> None:
        super().setup(gpu_id, seed)
        self.marker = marker
        assert self.task_id is None
        assert self.task_seed is None


class Environment(Echo):
    def process(self, item: str) -> str | None:
        return os.environ.get(item)


class Cleans(Echo):
    def setup(self, gpu_id: int, seed: int, folder: Any) -> None:
        super().setup(gpu_id, seed)
        self.folder = folder

    def cleanup(self) -> None:
        (self.folder / str(self.gpu_id)).touch(exist_ok=False)


class SlowSetup(Echo):
    def setup(self, gpu_id: int, seed: int) -> None:
        time.sleep(30)


class Modules(Echo):
    def process(self, item: Any) -> list[str]:
        return sorted(sys.modules)


class Dawdler(BaseWorker):
    """Sleeps as told. While another thread sends its results, the main one is not given the processor."""

    def setup(self, gpu_id: int, seed: int) -> None:
        from gpu_dispatch.runtime.flushing import Flusher

        ask = Flusher.ask

        def ask_and_dawdle(flusher: Flusher) -> None:
            ask(flusher)
            time.sleep(0.08)

        Flusher.ask = ask_and_dawdle

    def process(self, seconds: float) -> float:
        time.sleep(seconds)
        return seconds


class Keeper(BaseWorker):
    """Tells how long ago the item before this one was let go."""

    def setup(self, gpu_id: int, seed: int) -> None:
        self.let_go_at = 0.0

    def process(self, item: Any) -> float:
        since_s = time.monotonic() - self.let_go_at
        weakref.finalize(item, self._note)
        return since_s

    def _note(self) -> None:
        self.let_go_at = time.monotonic()
