"""Workers that run dispatchers of their own."""

from __future__ import annotations

import os
import time
from typing import Any

from plain_workers import Echo, Pid

from gpu_dispatch import BaseWorker, Dispatcher


class Nested(BaseWorker):
    """Runs a dispatcher of its own, in setup and for every task."""

    def setup(self, gpu_id: int, seed: int) -> None:
        self.from_setup = Dispatcher(Echo, "cpu:1").run([1], lambda *_: None)["completed"]

    def process(self, item: int) -> Any:
        results: list[int] = []
        Dispatcher(Pid, "cpu:2").run(range(item), lambda task_id, pid, worker_id: results.append(pid))
        return self.from_setup, os.getpid(), results


class Sleeps(Echo):
    def process(self, item: Any) -> Any:

        time.sleep(600)


class NestedHang(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None: ...

    def process(self, item: Any) -> Any:
        Dispatcher(Sleeps, "cpu:2").run([1, 2], lambda *_: None)
