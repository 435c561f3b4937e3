"""Workers that leave a trace of every execution."""

from __future__ import annotations

import os

from plain_workers import Echo


class Historian(Echo):
    """Appends the id of each task it executes to a file: one write, which a kill cannot tear."""

    def setup(self, gpu_id: int, seed: int, history: str) -> None:
        self.history = os.open(history, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def process(self, item: int) -> int:
        os.write(self.history, b"%d\n" % self.task_id)
        return item * 3


class Batches(Historian):
    def process_batch(self, items: list[int]) -> list[int]:
        os.write(self.history, b"".join(b"%d\n" % task_id for task_id in self.task_ids))
        return [item * 3 for item in items]
