"""``self.task_id`` in a worker whose methods run in several threads at once: in each, the task of that thread."""

from __future__ import annotations

import threading
from typing import Any

from gpu_dispatch.worker import BaseWorker


class OfThisThread:
    """An attribute that has a value per thread."""

    def __init__(self, default: Any) -> None:
        self._default = default
        self._values = threading.local()

    def __get__(self, worker: object, owner: type | None = None) -> Any:
        return getattr(self._values, "value", self._default)

    def __set__(self, worker: object, value: Any) -> None:
        self._values.value = value


def give_each_thread_its_task(worker_cls: type[BaseWorker]) -> None:
    if not isinstance(worker_cls.__dict__.get("task_id"), OfThisThread):
        worker_cls.task_id = OfThisThread(None)  # type: ignore[assignment]
        worker_cls._batch_ids = OfThisThread(())  # type: ignore[assignment]
