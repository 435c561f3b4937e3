"""From the options about batches to what a worker process is told, and what workers have learnt about them."""

from __future__ import annotations

from collections import Counter

from gpu_dispatch.devices import Grant
from gpu_dispatch.errors import UsageError
from gpu_dispatch.options import Options
from gpu_dispatch.transport.budget import arena_bytes
from gpu_dispatch.transport.codec import WillNotPickle, plain_dumps
from gpu_dispatch.wire import BatchSizeLearnt, RuntimePlan
from gpu_dispatch.worker import BaseWorker

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any

AUTO_AT_FIRST = 8
"""With an automatic size, how large a batch the scheduler is prepared for until a worker says what it tries."""


class Batching:
    """One per Dispatcher, so that a second run, or a restarted worker, begins with what was learnt."""

    def __init__(self, worker_cls: type[BaseWorker], options: Options, workers: int) -> None:
        self._workers = workers
        has_batches = callable(getattr(worker_cls, "process_batch", None))
        size = options.batch_size
        if not has_batches:
            _refuse_options_of_batches(worker_cls, options)
        self._auto = size == "auto" or (size is None and has_batches)
        self._size = size if isinstance(size, int) else None
        self._options = options
        self._prepares, finishes = (callable(getattr(worker_cls, n, None)) for n in ("preprocess", "postprocess"))
        self.overlaps = self._prepares or finishes
        self._batch_by = _packed("batch_by", options.batch_by)
        self._is_oom = _packed("is_oom", options.is_oom)
        self._learnt: dict[str, BatchSizeLearnt] = {}  # by kind of device
        self._trying: dict[int, int] = {}  # by slot: a size that has not proven itself yet
        self._deaths: Counter[tuple[str, int]] = Counter()  # of workers that were trying such a size, by kind and size

    @property
    def at_once(self) -> int:
        """How many tasks a worker has in hand at once, to begin with."""
        size = AUTO_AT_FIRST if self._auto else self._size or 1
        return size + (self._options.io_threads if self._prepares else 0)

    def begin_run(self) -> None:
        self._trying.clear()

    def plan(self, slot: int, grant: Grant, *, announce_starts: bool) -> RuntimePlan:
        """For a worker that is about to be started, in place of one that died if there was one."""
        self._learn_from_death(slot, grant)
        known = self._learnt.get(_kind(grant))
        size, ceiling = self._size, None
        if self._auto:
            size, ceiling = (1, None) if known is None else (known.size, known.ceiling)
        return RuntimePlan(
            announce_starts=announce_starts,
            cpus=grant.cpus,
            batch_size=size,
            batch_auto=self._auto,
            batch_ceiling=ceiling,
            batch_wait_s=self._options.batch_wait,
            batch_by=self._batch_by,
            is_oom=self._is_oom,
            io_threads=self._options.io_threads,
            arena_bytes=arena_bytes(self._workers),
        )

    def learn(self, slot: int, grant: Grant, learnt: BatchSizeLearnt) -> None:
        tries = learnt.at_once - (self._options.io_threads if self._prepares else 0)
        if tries > learnt.size:
            self._trying[slot] = tries
        else:
            self._trying.pop(slot, None)
        self._remember(grant, learnt)

    def _learn_from_death(self, slot: int, grant: Grant) -> None:
        """A size that kills its worker leaves no out-of-memory error: the kernel's killer gives no notice.

        Once may be the fault of an item. Twice makes the size a ceiling, or it would be tried, and kill, for ever.
        """
        tried = self._trying.pop(slot, None)
        if tried is None:
            return
        self._deaths[_kind(grant), tried] += 1
        if self._deaths[_kind(grant), tried] >= 2:
            self._remember(grant, BatchSizeLearnt(1, tried, tried))

    def _remember(self, grant: Grant, learnt: BatchSizeLearnt) -> None:
        """Workers on like devices learn each by itself: the lowest ceiling counts, and the largest size below it."""
        known = self._learnt.get(_kind(grant), learnt)
        ceiling = min((c for c in (known.ceiling, learnt.ceiling) if c is not None), default=None)
        fitting = [size for size in (known.size, learnt.size) if ceiling is None or size < ceiling]
        self._learnt[_kind(grant)] = BatchSizeLearnt(max(fitting, default=1), ceiling, learnt.at_once)


def _refuse_options_of_batches(worker_cls: type[BaseWorker], options: Options) -> None:
    for name, default in (("batch_size", None), ("batch_by", None), ("batch_wait", 0.0)):
        value = getattr(options, name)
        if value != default:
            raise UsageError(
                f"{name}={value!r} needs {worker_cls.__qualname__}.process_batch(items), which takes a list of items "
                "and returns as many results"
            )


def _kind(grant: Grant) -> str:
    """Devices of one name are taken to be alike."""
    return grant.physical[0].name if grant.physical else grant.device


def _packed(name: str, value: Any) -> bytes | None:
    if value is None:
        return None
    try:
        return plain_dumps(value)
    except WillNotPickle as error:
        raise UsageError(f"{name} cannot be sent to the workers. {error}") from None
