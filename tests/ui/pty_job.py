"""The program that the terminal tests run: ``pty_job.py SCENARIO``. Prints ``end: …`` last."""

from __future__ import annotations

import os
import sys

from ui_workers import Echo, SlowLoader

from gpu_dispatch import Dispatcher
from gpu_dispatch.ui import RichDispatcher


def noise(task_id: int, result: object, worker_id: int) -> None:
    if task_id % 10 == 0:
        print(f"callback {task_id}")


def noise_free(task_id: int, result: object, worker_id: int) -> None:
    pass


SCENARIOS = {
    "short": lambda: RichDispatcher(SlowLoader, [0, 1], refresh_rate=20).run([0.02] * 60, noise),
    "noisy": lambda: RichDispatcher(Echo, [0, 1], refresh_rate=20).run(["control", "megabyte", "raise", 0.05] * 10),
    "noisy, let through": lambda: RichDispatcher(Echo, [0, 1], refresh_rate=20, suppress_worker_output=False).run(
        ["control", 0.05, "raise"] * 10
    ),
    "endless": lambda: RichDispatcher(Echo, [0, 1], refresh_rate=20).run(iter(lambda: 0.05, None)),
    "silent": lambda: RichDispatcher(SlowLoader, [0, 1], refresh_rate=20).run([0.02] * 60),
    "tqdm": lambda: Dispatcher(Echo, [0, 1], progress="tqdm").run([0.02] * 60, noise_free),
    "rich bars": lambda: Dispatcher(Echo, [0, 1], progress="rich").run([0.02] * 60, noise),
    "plain": lambda: Dispatcher(Echo, [0, 1], progress="plain").run([0.02] * 60, noise_free),
    "blind": lambda: RichDispatcher(Echo, [0, 1], show_ui=False).run([0.02] * 20),
}

if __name__ == "__main__":
    marker = os.environ.get("MARKER")
    stats = SCENARIOS[sys.argv[1]]()
    ending = f"end: {stats['completed']} of {stats['total']}, {stats['failed']} failed"
    if marker:
        with open(marker, "w", encoding="utf-8") as file:
            file.write(ending)
    else:
        print(ending)
