"""Pulling from the user's iterable, on a thread of its own, only while there is credit.

Items go into a buffer that the loop empties when it next looks; it is woken only when a worker could use them.
A slow iterable is therefore passed on item by item, a fast one in bulk, without any setting. What is in memory already
(a list, a range) is taken in bulk: no code of the user's runs, so there is nothing to wait for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from gpu_dispatch.engine.credit import Credit

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any


IN_MEMORY = frozenset((list, tuple, range))
BULK = 1024
"""More at once would hold up the other threads, and be pulled in vain when somebody stops the run meanwhile."""


class Feeder:
    pulls_ahead = True
    """There may be items that nobody has asked for."""

    def __init__(
        self,
        items: Iterable[Any],
        credit: Credit,
        wake_loop: Callable[[], None],
        cost: Callable[[Any], float] | None = None,
    ) -> None:
        # With a cost, the buffer holds (item, cost): the user's function runs here, not in the loop.
        self._items = items if cost is None else ((item, float(cost(item))) for item in items)
        self.with_costs = cost is not None
        self._credit = credit
        self._wake_loop = wake_loop
        self._buffer: list[Any] = []  # this thread appends, the loop takes from the front
        self._stop = False
        self._exhausted = False
        self.error: BaseException | None = None
        """What the iterable raised, with its own traceback."""
        self.loop_is_hungry = False
        """Set by the loop while it sleeps and could use items."""
        self._thread = threading.Thread(target=self._pull, name="gpu-dispatch-feeder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Pull no more. What was pulled stays to be taken."""
        self._stop = True
        self._credit.close()

    def stopped(self) -> bool:
        return self._stop

    def take(self) -> list[Any]:
        """What was pulled since the last call."""
        buffer = self._buffer
        taken = buffer[:]
        del buffer[: len(taken)]
        return taken

    @property
    def has_items(self) -> bool:
        return bool(self._buffer)

    @property
    def exhausted(self) -> bool:
        """Nothing more will come. Look at this *before* the last ``take``."""
        return self._exhausted

    def join(self, patience_s: float) -> None:
        """An iterable that blocks cannot be interrupted: its (daemon) thread is left behind."""
        if self._thread.ident is not None:
            self._thread.join(patience_s)

    def _pull(self) -> None:
        iterator = None
        try:
            iterator = iter(self._items)
            pull = self._pull_in_bulk if type(self._items) in IN_MEMORY else self._pull_each
            while not self.stopped():
                credit = self._credit.take()
                if pull(islice(iterator, credit)) < credit:
                    break
        except BaseException as error:
            self.error = error
        finally:
            self._close(iterator)
            self._exhausted = True
            self._wake_loop()

    def _pull_each(self, items: Iterator[Any]) -> int:
        """Returns how many there were."""
        append = self._buffer.append
        taken = 0
        for item in items:
            append(item)
            taken += 1
            if self.loop_is_hungry:
                self._wake_hungry_loop()
            if self._stop:  # set by another thread meanwhile
                break
        return taken

    def _pull_in_bulk(self, items: Iterator[Any]) -> int:
        taken = 0
        while not self.stopped() and (bulk := list(islice(items, BULK))):
            self._buffer += bulk
            taken += len(bulk)
            if self.loop_is_hungry:
                self._wake_hungry_loop()
        return taken

    def _wake_hungry_loop(self) -> None:
        self.loop_is_hungry = False
        self._wake_loop()

    def _close(self, iterator: Any) -> None:
        """Let a generator run its ``finally`` blocks now, on the thread that ran the rest of it."""
        close = getattr(iterator, "close", None)
        if callable(close) and hasattr(iterator, "gi_frame"):
            try:
                close()
            except BaseException as error:
                self.error = self.error or error


class InlineFeeder:
    """Pulls on the thread that asks, one item at a time: for a backend that runs tasks in the calling process."""

    pulls_ahead = False

    def __init__(self, items: Iterable[Any], cost: Callable[[Any], float] | None = None) -> None:
        self._iterator = iter(items)
        self._cost = cost
        self.with_costs = cost is not None
        self.error: BaseException | None = None
        self.loop_is_hungry = False
        self.exhausted = False

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.exhausted = True

    def take(self) -> list[Any]:
        if self.exhausted:
            return []
        try:
            for item in self._iterator:
                return [item if self._cost is None else (item, float(self._cost(item)))]
        except BaseException as error:
            self.error = error
        self.exhausted = True
        return []

    @property
    def has_items(self) -> bool:
        return not self.exhausted

    def join(self, patience_s: float) -> None:
        pass
