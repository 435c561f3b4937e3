"""What an adapter gets: the work, the items, and a clock that it starts at the right moment.

An adapter runs ``job.work`` on every one of ``job.items()`` and hands each result to ``job.take``. It calls
``before_workers()`` as its first act and ``workers_ready()`` when its workers are up; the job knows which of
the two starts the clock. The clock stops by itself with the last result (or the first one, where that is what
is measured), so that shutting the workers down is never part of the figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any


@dataclass(slots=True)
class Job:
    work: Callable[[Any], Any]
    items: Callable[[], Iterable[Any]]
    count: int
    workers: int
    cold: bool = False
    """Starting the workers is part of the figure."""
    until: int | None = None
    """The clock stops with this many results; ``None``: with the last."""
    keep: bool = False
    """Results are kept for the load's own arithmetic, instead of only being counted."""
    cost: Callable[[Any], float] | None = None
    queue_size: int = 1024
    """How many items may be on their way, in the systems that bound that."""
    limit: str = "static split"
    nbytes: int = 0
    """What one item weighs, where that matters."""
    results: list[Any] = field(default_factory=list)
    taken: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    awaited: int = field(init=False)

    def __post_init__(self) -> None:
        self.awaited = self.count if self.until is None else self.until

    def before_workers(self) -> None:
        if self.cold:
            self.started_at = perf_counter()

    def workers_ready(self) -> None:
        if not self.cold:
            self.started_at = perf_counter()

    def take(self, result: Any) -> None:
        """One result. Kept as small as a user's counting callback: it is part of every figure."""
        self.taken = taken = self.taken + 1
        if self.keep:
            self.results.append(result)
        if taken == self.awaited:
            self.ended_at = perf_counter()

    def take_many(self, count: int) -> None:
        """For the limit, whose processes count on their own."""
        self.taken += count
        self.ended_at = perf_counter()

    @property
    def elapsed_s(self) -> float:
        if self.started_at is None or self.ended_at is None:
            raise RuntimeError(f"the adapter returned after {self.taken} of {self.awaited} results")
        return self.ended_at - self.started_at
