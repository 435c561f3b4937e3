"""Workers for the tests of this room, in a module that worker processes can import."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from gpu_dispatch.worker import BaseWorker


class Echo(BaseWorker):
    """Does what the item says."""

    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        pass

    def process(self, data: Any) -> Any:
        if isinstance(data, float):
            time.sleep(data)
        elif data == "raise":
            raise ValueError("bad [red]row[/red] \x1b[2J\x1b]0;owned\x07")
        elif data == "crash":
            os._exit(7)
        elif data == "megabyte":
            sys.stdout.write("x" * 1_000_000)
            sys.stdout.write("\n" * 1000)
        elif data == "control":
            sys.stdout.write("\x1b[2J\x1b[H\x1b]0;owned\x07\x1b[?1049h\x9b5A\x0b\x0c\x08\x07\x1b[31mworker was here\n")
            sys.stdout.flush()
        return data


class SlowLoader(Echo):
    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        time.sleep(0.6)
