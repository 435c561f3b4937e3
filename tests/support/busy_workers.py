"""Workers that use what user code uses: threads, pools, forks, daemons, files."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from typing import Any

from gpu_dispatch import BaseWorker


def square(number: int) -> int:
    return number * number


class UsesPools(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None: ...

    def process(self, method: str) -> Any:
        if method == "threads":
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(3) as pool:
                return list(pool.map(square, range(5)))
        import multiprocessing

        with multiprocessing.get_context(method).Pool(2) as pool:
            return pool.map(square, range(5))


class LeavesThingsBehind(BaseWorker):
    """A thread that never ends, a child, an exit handler that hangs: whatever a library may leave running."""

    def setup(self, gpu_id: int, seed: int, what: str) -> None:
        if what == "thread":
            threading.Thread(target=time.sleep, args=(600,)).start()
        elif what == "exit handler":
            atexit.register(time.sleep, 600)
        elif what == "child" and os.fork() == 0:
            time.sleep(600)
            os._exit(0)

    def process(self, item: Any) -> Any:
        return item


class EndsChildren(BaseWorker):
    """Starts a child, as a program or by fork, and ends it with SIGTERM."""

    def setup(self, gpu_id: int, seed: int) -> None: ...

    def process(self, how: str) -> int:
        if how == "program":
            import subprocess

            with subprocess.Popen(["sleep", "60"]) as child:
                child.terminate()
                return child.wait()
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        os.kill(pid, signal.SIGTERM)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
