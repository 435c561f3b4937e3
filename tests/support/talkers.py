"""Workers that print."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from plain_workers import Echo


class Talker(Echo):
    def setup(self, gpu_id: int, seed: int) -> None:
        super().setup(gpu_id, seed)
        print(f"setup of {gpu_id}")

    def process(self, item: str) -> str:
        print(f"out {item}")
        print(f"err {item}", file=sys.stderr)
        return item

    def cleanup(self) -> None:
        sys.stdout.write("cleanup without a newline")


class TalkerThatDies(Talker):
    def process(self, item: str) -> str:
        super().process(item)
        if item == "5":
            import os

            os._exit(1)
        return item


class LastWords(Echo):
    def process(self, item: Any) -> Any:

        print("cudaErrorSomething: the card is on fire", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGKILL)


class Flood(Echo):
    def process(self, item: int) -> int:
        for _ in range(20):
            sys.stdout.write("x" * 99_999 + "\n")
        return item


class ClosesStreams(Echo):
    def setup(self, gpu_id: int, seed: int) -> None:

        sys.stdout.close()
        os.close(2)


class Stammerer(Echo):
    """Writes a line to each of its two streams at the same time, piece by piece."""

    def process(self, item: int) -> int:
        os.write(1, b"out")
        os.write(2, b"err")
        time.sleep(0.002)
        os.write(1, b" %d\n" % item)
        os.write(2, b" %d\n" % item)
        return item
