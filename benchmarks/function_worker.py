"""The worker class of the benchmarks. By itself, so that a worker process imports nothing else to get at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpu_dispatch import BaseWorker


class FunctionWorker(BaseWorker):
    function: Callable[[Any], Any]

    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        self.function = kwargs["function"]

    def process(self, data: Any) -> Any:
        return self.function(data)
