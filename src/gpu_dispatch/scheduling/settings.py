"""What the scheduler is told once, at its birth."""

from __future__ import annotations

from gpu_dispatch.light import dataclass, field
from gpu_dispatch.options import RetryPolicy


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    slots: int
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    max_restarts: int = 10
    max_crashes: int = 2
    task_timeout: float | None = None
    timeout_grace: float = 1.0
    setup_timeout: float | None = 600.0
    cleanup_timeout: float = 30.0
    setup_concurrency: int | None = None
    """How many workers may be in their setup at once; ``None`` means all."""
    cores: int | None = None
    """How many workers can come to life without slowing each other down; ``None`` means all. See head_start.py."""
    batch_size: int = 1
    """How many tasks a worker has in hand at once, until BatchSizeLearnt says otherwise: a slot must hold twice as many
    to never run dry."""
    batch_wait_s: float = 0.0
    """How long a worker may wait for a full batch, with tasks in hand and none running."""
    overlaps: bool = False
    """Tasks in one worker run beside each other, on I/O threads: that one ends says nothing about the others."""
    fixed_window: int | None = None
    speculate: bool = False
    """At the end of a run, let idle slots run second copies of the last tasks; see copies.py."""
    devices: tuple[int, ...] | None = None
    """The device of each slot, as any number that tells devices apart; ``None``: every slot has one of its own."""
