"""Making up a batch: what is there, up to the size and the budget; waiting a little for more if so asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gpu_dispatch.runtime.batch_size import AutoBatchSize, FixedBatchSize
from gpu_dispatch.runtime.mailbox import Mailbox, Sealed
from gpu_dispatch.runtime.sources import Source, Task


class Collector:
    """``cost`` and ``budget``: how much an item counts, and how much a batch may count in all."""

    def __init__(
        self,
        source: Source,
        mailbox: Mailbox,
        size: AutoBatchSize | FixedBatchSize,
        *,
        wait_s: float = 0.0,
        cost: Callable[[Any], float] | None = None,
        budget: float = 0.0,
        before_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._mailbox = mailbox
        self._size = size
        self._wait_s = wait_s
        self._cost, self._budget = cost, budget
        self._before_waiting = before_waiting
        self._held_over: Task | Sealed | None = None  # taken, but not for the last batch

    def next_batch(self) -> list[Task] | Sealed | None:
        """``None`` when no more tasks will come."""
        first = self._first()
        if first is None or isinstance(first, Sealed):
            return first
        batch, spent = [first], self._price(first)
        wait_until = time.monotonic() + self._wait_s
        while len(batch) < self._size.size:
            task = self._source.take()
            if task is None:
                left_s = wait_until - time.monotonic()
                if left_s <= 0 or self._mailbox.finishing:
                    break
                self._before_waiting()
                self._source.wait(left_s)
                continue
            if isinstance(task, Sealed):
                self._held_over = task
                break
            spent += self._price(task)
            if spent > self._budget and self._cost is not None:
                self._held_over = task
                break
            batch.append(task)
        return batch

    def _first(self) -> Task | Sealed | None:
        held_over, self._held_over = self._held_over, None
        if held_over is not None:
            return held_over
        while True:
            task = self._source.take()
            if task is not None:
                return task
            if self._mailbox.exhausted:
                return None
            self._before_waiting()
            self._source.wait(None)

    def _price(self, task: Task) -> float:
        if self._cost is None:
            return 0.0
        try:
            price = float(self._cost(task[1]))
        except Exception:
            price = self._budget
        # One whose cost cannot be told goes alone, and process_batch will say what is wrong with it.
        return price if price >= 0.0 else self._budget
