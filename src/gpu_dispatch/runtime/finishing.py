"""``postprocess`` on I/O threads, behind the model. Bounded: a slow disk slows the model down, not the memory."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from gpu_dispatch.runtime.active import ActiveTasks
from gpu_dispatch.runtime.outbox import FLUSH_S, Outbox
from gpu_dispatch.worker import BaseWorker

Result = tuple[int, float, Any]
"""(task id, seconds in the model, what the model returned)"""


class Finishing:
    """``most``: how many results may wait for their turn. At least a batch, or the model would wait for the disk."""

    def __init__(
        self,
        worker: BaseWorker,
        active: ActiveTasks,
        outbox: Outbox,
        send: Callable[[int, float, Any], None],
        fail: Callable[[int, float, BaseException], None],
        threads: int,
        most: Callable[[], int],
    ) -> None:
        self._worker = worker
        self._postprocess: Callable[[Any], Any] = worker.postprocess  # type: ignore[attr-defined]
        self._active = active
        self._outbox = outbox
        self._send = send
        self._fail = fail
        self._most = most
        self._queue: queue.Queue[Result | None] = queue.Queue()
        self._threads = [
            threading.Thread(target=self._work, name=f"gpu-dispatch-post-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, task_id: int, busy_s: float, value: Any) -> None:
        self._queue.maxsize = self._most()  # it follows the size of the batches
        self._queue.put((task_id, busy_s, value))

    def drain(self) -> None:
        """Until everything that was put has been answered."""
        self._queue.join()

    def close(self) -> None:
        self._queue.maxsize = 0
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            self._finish(*job)
            del job
            self._queue.task_done()
            if self._queue.empty() or time.monotonic() >= self._outbox.quiet_since + FLUSH_S:
                self._outbox.flush()

    def _finish(self, task_id: int, busy_s: float, value: Any) -> None:
        self._active.begin((task_id,))
        self._worker.task_id = task_id
        try:
            self._send(task_id, busy_s, self._postprocess(value))
        except BaseException as error:
            self._fail(task_id, time.monotonic() - busy_s, error)
        finally:
            self._worker.task_id = None
            self._active.end((task_id,))
