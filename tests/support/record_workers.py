"""Workers for lists of records, as users of ``run_multi_gpu`` write them."""

from __future__ import annotations

import os
import time
from typing import Any

from gpu_dispatch import BaseWorker


class Scorer(BaseWorker):
    """Adds a score; records whose number says so fail."""

    def setup(self, gpu_id: Any, seed: int, bad: tuple[int, ...] = (), how: str = "raise") -> None:
        self.gpu_id, self.bad, self.how = gpu_id, set(bad), how

    def process(self, record: dict[str, Any]) -> dict[str, Any]:
        if record["id"] in self.bad:
            self.fail(record)
        return {**record, "score": record["id"] * 2, "gpu": self.gpu_id}

    def fail(self, record: dict[str, Any]) -> None:
        if self.how == "exit":
            os._exit(3)
        if self.how == "hang":
            time.sleep(60)
        raise ValueError(f"record {record['id']} is bad")


class BatchScorer(Scorer):
    def process_batch(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [Scorer.process(self, record) for record in records]


class Lengths(BaseWorker):
    """Returns a number, not a record."""

    def setup(self, gpu_id: Any, seed: int) -> None: ...

    def process(self, record: Any) -> int:
        return len(record)


class NeverReady(Lengths):
    def setup(self, gpu_id: Any, seed: int) -> None:
        raise RuntimeError("no model")


class DiesOnTheThird(Lengths):
    """Every worker of it dies at the third record, whatever that is."""

    def process(self, record: Any) -> int:
        if record["id"] >= 2:
            os._exit(3)
        return 1
