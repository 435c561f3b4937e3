"""Lists of records over all GPUs: hand in a list, get the list back, in order, nothing lost.

For data that fits into memory. ``Dispatcher`` is for everything else; this is a small function on top of it, so the
balance is dynamic: a fast GPU does more. ``distribute_to_gpus`` makes the even, static chunks for those who want them.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gpu_dispatch.dispatcher import Dispatcher
from gpu_dispatch.errors import AllWorkersFailed, UsageError
from gpu_dispatch.worker import BaseWorker

ERROR_KEY = "_error"
RESULT_KEY = "_result"
NOT_PROCESSED = object()


def distribute_to_gpus(records: Sequence[Any], n_gpus: int) -> list[tuple[Sequence[Any], int, int]]:
    """Even chunks as ``(chunk, gpu_id, position)``; fewer than ``n_gpus`` of them when there are too few records."""
    _check(n_gpus)
    size = -(-len(records) // n_gpus)  # rounded up
    starts = range(0, len(records), size) if size else range(0)
    return [(records[start : start + size], gpu, gpu) for gpu, start in enumerate(starts)]


def run_multi_gpu(
    records: Iterable[Any],
    worker_cls: type[BaseWorker],
    n_gpus: int = 4,
    batch_size: int | str | None = 128,
    *,
    gpu_ids: Sequence[int | str] | str | None = None,
    task_timeout: float | None = None,
    progress: str | None = "auto",
    base_seed: int = 42,
    dispatcher_options: dict[str, Any] | None = None,
    **setup_kwargs: Any,
) -> list[Any]:
    """Process records on ``n_gpus`` GPUs; returns as many, in the same order.

    A record that failed comes back as it was, with ``_error`` saying why. What a worker returns takes the record's
    place; a result that is not a dict stands beside the record's own fields, as ``_result``. An ``_error`` of an
    earlier run is not shown to the worker: those that failed can be handed in again as they are.
    """
    _check(n_gpus)
    records = [_without_error(record) for record in records]
    if not records:
        return []
    options: dict[str, Any] = dict(dispatcher_options or {})
    if callable(getattr(worker_cls, "process_batch", None)):
        options.setdefault("batch_size", batch_size)
    dispatcher = Dispatcher(
        worker_cls,
        list(range(n_gpus)) if gpu_ids is None else gpu_ids,
        progress=_progress(progress),
        **options,
    )
    gpu_of = dispatcher.worker_gpus
    results: list[Any] = [NOT_PROCESSED] * len(records)

    def on_success(task_id: int, result: Any, _worker_id: int) -> None:
        results[task_id] = result if isinstance(result, dict) else _with(records[task_id], RESULT_KEY, result)

    def on_error(task_id: int, error: str, worker_id: int) -> None:
        results[task_id] = _failed(records[task_id], str(error), gpu_of.get(worker_id))

    def on_timeout(task_id: int, timeout: float, worker_id: int) -> None:
        results[task_id] = _failed(records[task_id], f"timed out after {timeout:g} s", gpu_of.get(worker_id))

    try:
        dispatcher.run(
            iter(records),
            on_success,
            on_error,
            on_timeout,
            base_seed=base_seed,
            task_timeout=task_timeout,
            total_tasks=len(records),
            **setup_kwargs,
        )
    except AllWorkersFailed as error:
        if not any(ERROR_KEY not in result for result in _dicts(results)):
            raise  # nothing was done at all: that is an error, not a list of failed records
        print(f"gpu_dispatch: {error}", file=sys.stderr)
    return [
        _failed(record, "this record was not processed") if result is NOT_PROCESSED else result
        for record, result in zip(records, results, strict=True)
    ]


def _check(n_gpus: int) -> None:
    if isinstance(n_gpus, bool) or not isinstance(n_gpus, int) or n_gpus < 1:
        raise UsageError(f"n_gpus must be >= 1, got {n_gpus!r}")


def _with(record: Any, key: str, value: Any) -> dict[str, Any]:
    return {**record, key: value} if isinstance(record, dict) else {"record": record, key: value}


def _without_error(record: Any) -> Any:
    if isinstance(record, dict) and ERROR_KEY in record:
        return {key: value for key, value in record.items() if key != ERROR_KEY}
    return record


def _failed(record: Any, why: str, gpu: int | str | None = None) -> dict[str, Any]:
    where = "" if gpu is None else f"GPU {gpu} failed: " if isinstance(gpu, int) else f"{gpu} failed: "
    return _with(record, ERROR_KEY, where + why.strip())


def _dicts(results: list[Any]) -> Iterator[dict[str, Any]]:
    return (result for result in results if isinstance(result, dict))


def _progress(progress: str | None) -> str | None:
    """A bar per GPU where a person is looking and tqdm is there."""
    if progress != "auto":
        return progress
    is_watched = sys.stderr is not None and sys.stderr.isatty()
    return "tqdm" if is_watched and importlib.util.find_spec("tqdm") is not None else None
