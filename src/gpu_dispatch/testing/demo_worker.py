"""The worker of ``python -m gpu_dispatch demo``: behaves like a model on a GPU, without either.

It takes its time to load, prints what such programs print, is now and then given a picture it cannot read,
once one on which it hangs, and once one that kills the process.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from typing import Any

from gpu_dispatch.worker import BaseWorker

_LOAD_S = (1.0, 2.0)
_TASK_S = (0.02, 0.12)


class DemoWorker(BaseWorker):
    def setup(self, gpu_id: int, seed: int, speed: float = 1.0, **kwargs: Any) -> None:
        self.speed = speed
        print(f"loading the model for GPU {gpu_id}", flush=True)
        time.sleep(random.Random(seed).uniform(*_LOAD_S) / speed)
        print(f"model loaded on GPU {gpu_id}, ready for pictures", flush=True)

    def process(self, data: str) -> dict[str, Any]:
        chance = random.Random(self.task_seed)
        if data.startswith("hang"):
            print(f"{data}: this one takes long", flush=True)
            time.sleep(3600)
        if data.startswith("crash"):
            print(f"{data}: out of memory?", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory runs out
        time.sleep(chance.uniform(*_TASK_S) / self.speed)
        if data.startswith("broken"):
            raise ValueError("cannot identify image file")
        if chance.random() < 0.02:
            print(f"{data}: low confidence", flush=True)
        return {"picture": data, "label": chance.choice(("cat", "dog", "bird")), "score": round(chance.random(), 3)}


def demo_items(number: int) -> Iterator[str]:
    """Names of pictures: about one in seventy is broken, one hangs, one crashes its worker."""
    for index in range(number):
        kind = "photo"
        if index == number // 4:
            kind = "hang"
        elif index == number // 2:
            kind = "crash"
        elif index % 71 == 40:
            kind = "broken"
        yield f"{kind}-{index:05d}.jpg"
