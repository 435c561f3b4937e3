"""Workers that hold memory of a fake GPU, for the tests of packing and of broken devices."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from fake_nvml import claim

from gpu_dispatch import BaseWorker


class Holder(BaseWorker):
    """Holds ``mib`` of its GPU. A task takes ``seconds``; once ``crowded`` workers are there it takes ten times that,
    when the file ``slow`` says so."""

    def setup(self, gpu_id: int, seed: int, mib: float, seconds: float = 0.01, slow: str | None = None) -> None:
        self.seconds, self.slow = seconds, slow
        self.gpu = int(os.environ["CUDA_VISIBLE_DEVICES"])
        claim(self.gpu, mib)

    def process(self, item: Any) -> Any:
        crowded = self.slow is not None and Path(self.slow).exists()
        time.sleep(self.seconds * (10 if crowded else 1))
        return item


class Breaks(BaseWorker):
    """On GPU 1 every task after the third says that the GPU is gone."""

    def setup(self, gpu_id: int, seed: int, folder: str) -> None:
        self.gpu_id, self.folder, self.done = gpu_id, folder, 0

    def process(self, item: Any) -> Any:
        self.done += 1
        time.sleep(0.005)
        if self.gpu_id == 1 and self.done > 3:
            Path(self.folder, "gone").touch()
            raise RuntimeError("CUDA error: GPU is lost. Reboot the system to recover this GPU")
        return item


class DiesOnce(BaseWorker):
    """Kills itself on item 5; writes down when each life of it began."""

    def setup(self, gpu_id: int, seed: int, folder: str) -> None:
        self.gpu = int(os.environ["CUDA_VISIBLE_DEVICES"])
        claim(self.gpu, 1000)
        with open(os.path.join(folder, "lives"), "a") as lives:
            lives.write(f"{time.monotonic()} {os.getpid()}\n")

    def process(self, item: Any) -> Any:
        if item == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return item
