"""Workers that do nothing wrong."""

from __future__ import annotations

import os
import time
from typing import Any

from gpu_dispatch import BaseWorker


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
