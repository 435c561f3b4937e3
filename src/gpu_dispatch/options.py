"""What the user may set, validated once, with the offending value in the message.

``Options`` is what the constructor of a Dispatcher freezes; ``RunArguments`` what one ``run()`` adds.
Nothing here starts, imports or looks up anything: devices are resolved by ``devices/``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from os import PathLike

from gpu_dispatch.errors import UsageError
from gpu_dispatch.light import dataclass, field

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any
else:
    Any = object  # for those who ask for the types of fields at run time


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, after what, and how soon a failed task is tried again.

    ``retries=3`` on the Dispatcher is short for ``RetryPolicy(retries=3)``.
    """

    retries: int = 0
    """Attempts after the first."""
    backoff_s: float = 0.0
    """Wait before the first retry; it doubles with each further one."""
    max_backoff_s: float = 60.0
    on: frozenset[str] | tuple[str, ...] = ("error", "timeout", "crash")
    """Which kinds of failure are worth another attempt."""
    exceptions: tuple[type[BaseException] | str, ...] = ()
    """Only these exceptions (or subclasses), as classes or qualified names; empty means all."""

    def __post_init__(self) -> None:
        _whole("retries", self.retries, least=0)
        check_seconds("backoff_s", self.backoff_s, zero=True)
        check_seconds("max_backoff_s", self.max_backoff_s, zero=True)
        unknown = set(self.on) - {"error", "timeout", "crash"}
        if unknown:
            raise UsageError(f"RetryPolicy(on=...) knows 'error', 'timeout' and 'crash', not {sorted(unknown)}")
        if not isinstance(self.exceptions, tuple | list) or not all(map(_names_exceptions, self.exceptions)):
            raise UsageError(
                f"RetryPolicy(exceptions=...) takes a tuple of exception classes or names, got {self.exceptions!r}"
            )

    def allows(self, kind: str, type_names: tuple[str, ...], attempt: int) -> bool:
        """Whether a task that failed on its ``attempt``-th try may be tried once more."""
        if attempt > self.retries or kind not in self.on:
            return False
        if kind != "error" or not self.exceptions:
            return True
        wanted = {e if isinstance(e, str) else qualified_name(e) for e in self.exceptions}
        return not wanted.isdisjoint(type_names) or not wanted.isdisjoint(n.rpartition(".")[2] for n in type_names)

    def delay_s(self, attempt: int) -> float:
        """How long to wait after the ``attempt``-th try failed."""
        return min(self.backoff_s * 2.0 ** (attempt - 1), self.max_backoff_s)


def _names_exceptions(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, type) and issubclass(value, BaseException))


def qualified_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


@dataclass(frozen=True, slots=True)
class Options:
    """The constructor's keyword arguments. Each has a page in docs/howto/options.md."""

    queue_size: int = 1024
    retries: int | RetryPolicy = 0
    max_restarts: int = 10
    max_crashes: int = 2
    timeout_grace: float = 1.0
    setup_timeout: float | None = 600.0
    drain_timeout: float = 3.0
    cleanup_timeout: float = 30.0
    suppress_worker_output: bool = False
    log_dir: str | PathLike[str] | None = None
    isolate: bool = True
    env: Mapping[str, str] = field(default_factory=dict)
    backend: str = "local"
    cost: Callable[[Any], float] | None = None
    """How long an item will take, in any unit: the longest of the credit window goes first."""
    setup_concurrency: int | None = None
    """How many workers may load their model at once; ``None`` means all."""
    workers_per_gpu: int | str = 1
    gpus_per_worker: int = 1
    batch_size: int | str | None = None
    """Tasks per ``process_batch`` call, or ``"auto"``. ``None``: auto if the worker defines it, else one by one."""
    batch_wait: float = 0.0
    """Seconds to wait for a full batch; 0 takes what is there, so that the device never waits for company."""
    batch_by: tuple[Callable[[Any], float], float] | None = None
    """(cost of an item, budget of a batch): token or pixel buckets."""
    speculate: bool = False
    """Run the last tasks a second time on idle workers; the first answer counts."""
    io_threads: int = 4
    """Threads per worker for ``preprocess`` and as many for ``postprocess``."""
    is_oom: Callable[[BaseException], bool] | None = None
    """Your own judge of what counts as out of memory."""
    window: int | None = None
    """Fixes how many tasks a worker may hold. For tests; the default follows measured durations."""

    def __post_init__(self) -> None:
        _whole("queue_size", self.queue_size, least=1)
        if not isinstance(self.retries, RetryPolicy):
            _whole("retries", self.retries, least=0)
        _whole("max_restarts", self.max_restarts, least=0)
        _whole("max_crashes", self.max_crashes, least=1)
        check_seconds("timeout_grace", self.timeout_grace, zero=True)
        if self.setup_timeout is not None:
            check_seconds("setup_timeout", self.setup_timeout)
        check_seconds("drain_timeout", self.drain_timeout, zero=True)
        check_seconds("cleanup_timeout", self.cleanup_timeout)
        for name in ("suppress_worker_output", "isolate"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.log_dir is not None and not isinstance(self.log_dir, str | PathLike):
            raise UsageError(f"log_dir must be a path, got {self.log_dir!r}")
        if self.window is not None:
            _whole("window", self.window, least=1)
        if self.cost is not None and not callable(self.cost):
            raise UsageError(f"cost must be a function of an item, got {self.cost!r}")
        if self.setup_concurrency is not None:
            _whole("setup_concurrency", self.setup_concurrency, least=1)
        if self.workers_per_gpu != "auto":
            _whole("workers_per_gpu", self.workers_per_gpu, least=1)
        _whole("gpus_per_worker", self.gpus_per_worker, least=1)
        if self.batch_size is not None and self.batch_size != "auto":
            _whole("batch_size", self.batch_size, least=1)
        check_seconds("batch_wait", self.batch_wait, zero=True)
        _whole("io_threads", self.io_threads, least=1)
        if self.is_oom is not None and not callable(self.is_oom):
            raise UsageError(f"is_oom must be a function of an exception, got {self.is_oom!r}")
        _check_batch_by(self.batch_by)
        if not isinstance(self.env, Mapping) or not all(
            isinstance(k, str) and isinstance(v, str) for k, v in self.env.items()
        ):
            raise UsageError(f"env must map names to strings, got {self.env!r}")
        for name, value in self.env.items():
            if not name or "=" in name or "\0" in name + value:
                raise UsageError(f"env has a name or a value that no process can be given: {name!r}: {value!r}")
        if self.backend not in ("local", "inline"):
            raise UsageError(f"backend must be 'local' or 'inline', got {self.backend!r}")

    @property
    def retry_policy(self) -> RetryPolicy:
        return self.retries if isinstance(self.retries, RetryPolicy) else RetryPolicy(retries=self.retries)


@dataclass(frozen=True, slots=True)
class RunArguments:
    """What one ``run()`` was called with."""

    items: Iterable[Any]
    on_success: Callable[..., Any] | None
    on_error: Callable[..., Any] | None = None
    on_timeout: Callable[..., Any] | None = None
    on_setup_fail: Callable[..., Any] | None = None
    on_task_start: Callable[..., Any] | None = None
    on_exit: Callable[..., Any] | None = None
    on_progress: Callable[..., Any] | None = None
    base_seed: int = 42
    task_timeout: float | None = None
    total_tasks: int | None = None
    setup_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.items, Iterable):
            raise UsageError(
                f"generator must be iterable (a generator, list, ...), got {type(self.items).__name__}: "
                "if it is a generator function, call it: generator=my_generator()"
            )
        for name in (
            "on_success",
            "on_error",
            "on_timeout",
            "on_setup_fail",
            "on_task_start",
            "on_exit",
            "on_progress",
        ):
            callback = getattr(self, name)
            if callback is not None and not callable(callback):
                raise UsageError(f"{name} must be callable, got {type(callback).__name__}: {callback!r:.80}")
        if isinstance(self.base_seed, bool) or not isinstance(self.base_seed, int):
            raise UsageError(f"base_seed must be an int, got {self.base_seed!r}")
        if self.task_timeout is not None:
            check_seconds("task_timeout", self.task_timeout)
        if self.total_tasks is not None:
            _whole("total_tasks", self.total_tasks, least=0)


def _check_batch_by(batch_by: object) -> None:
    if batch_by is None:
        return
    if not isinstance(batch_by, tuple) or len(batch_by) != 2 or not callable(batch_by[0]):
        raise UsageError(f"batch_by must be (cost function of an item, budget of a batch), got {batch_by!r}")
    budget = batch_by[1]
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0:
        raise UsageError(f"the budget in batch_by must be a positive number, got {budget!r}")


def _whole(name: str, value: object, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, got {value!r}")


def check_seconds(name: str, value: object, *, zero: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or math.isinf(value):
        raise UsageError(f"{name} must be a finite number of seconds, got {value!r}")
    if value < 0 or (value == 0 and not zero):
        raise UsageError(f"{name} must be {'at least 0' if zero else 'more than 0'} seconds, got {value!r}")
