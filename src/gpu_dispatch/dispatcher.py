"""Dispatcher: what users call. Arguments become options, options become a run."""

from __future__ import annotations

from gpu_dispatch.errors import RunInProgress, UsageError
from gpu_dispatch.runtime.main_module import refuse_run_during_import

# Everything else is imported when a Dispatcher is made. The module of a worker class usually says "from gpu_dispatch
# import BaseWorker, Dispatcher", and is imported by every worker process: what a run needs is of no use there.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from os import PathLike
    from typing import Any

    from gpu_dispatch import devices
    from gpu_dispatch.backends.output import OutputPump
    from gpu_dispatch.engine.run import Run
    from gpu_dispatch.observe.stats import RunStats
    from gpu_dispatch.options import RetryPolicy, RunArguments
    from gpu_dispatch.protocol import Outcome
    from gpu_dispatch.worker import BaseWorker


class Dispatcher:
    """Keeps a worker busy on every GPU until an iterable is exhausted.

    ``worker_cls``: your subclass of BaseWorker. ``gpu_ids``: ``[0, 1]``, ``"auto"``, ``"0,2-5"``, UUIDs, or ``"cpu:4"``
    for four workers without a GPU. ``queue_size``: items pulled from the iterable and not yet delivered, at most.
    Every other option is described in docs/howto/options.md.
    """

    def __init__(
        self,
        worker_cls: type[BaseWorker],
        gpu_ids: Sequence[int | str] | str,
        queue_size: int = 1024,
        *,
        retries: int | RetryPolicy = 0,
        max_restarts: int = 10,
        max_crashes: int = 2,
        timeout_grace: float = 1.0,
        setup_timeout: float | None = 600.0,
        drain_timeout: float = 3.0,
        cleanup_timeout: float = 30.0,
        suppress_worker_output: bool = False,
        log_dir: str | PathLike[str] | None = None,
        isolate: bool = True,
        env: Mapping[str, str] | None = None,
        backend: str = "local",
        cost: Callable[[Any], float] | None = None,
        setup_concurrency: int | None = None,
        workers_per_gpu: int | str = 1,
        gpus_per_worker: int = 1,
        batch_size: int | str | None = None,
        batch_wait: float = 0.0,
        batch_by: tuple[Callable[[Any], float], float] | None = None,
        io_threads: int = 4,
        is_oom: Callable[[BaseException], bool] | None = None,
        speculate: bool = False,
        progress: str | None = None,
        window: int | None = None,
    ) -> None:
        if progress is not None:
            from gpu_dispatch.ui.progress import check_progress

            check_progress(progress)
        self._progress = progress
        import os
        from threading import Lock

        from gpu_dispatch import devices
        from gpu_dispatch.assembly import Roster
        from gpu_dispatch.backends.travel import check_worker_class
        from gpu_dispatch.batching import Batching
        from gpu_dispatch.options import Options

        self._worker_cls = check_worker_class(worker_cls)
        self._options = Options(
            queue_size=queue_size,
            retries=retries,
            max_restarts=max_restarts,
            max_crashes=max_crashes,
            timeout_grace=timeout_grace,
            setup_timeout=setup_timeout,
            drain_timeout=drain_timeout,
            cleanup_timeout=cleanup_timeout,
            suppress_worker_output=suppress_worker_output,
            log_dir=log_dir,
            isolate=isolate,
            env={} if env is None else dict(env) if isinstance(env, dict) else env,
            backend=backend,
            cost=cost,
            setup_concurrency=setup_concurrency,
            workers_per_gpu=workers_per_gpu,
            gpus_per_worker=gpus_per_worker,
            batch_size=batch_size,
            batch_wait=batch_wait,
            batch_by=batch_by,
            io_threads=io_threads,
            is_oom=is_oom,
            speculate=speculate,
            window=window,
        )
        grants = devices.resolve(
            gpu_ids,
            {**os.environ, **self._options.env},
            workers_per_gpu=1 if workers_per_gpu == "auto" else int(workers_per_gpu),
            gpus_per_worker=gpus_per_worker,
            isolate=isolate,
        )
        self._roster = Roster(grants, one_per_gpu=workers_per_gpu == 1)
        self._batching = Batching(self._worker_cls, self._options, len(grants))
        self._lock = Lock()
        self._run: Run | None = None
        self._stats: RunStats | None = None

    @property
    def worker_ids(self) -> tuple[int, ...]:
        """The numbers that callbacks get, one per worker."""
        return tuple(self._roster.worker_ids)

    @property
    def worker_gpus(self) -> dict[int, int | str]:
        """Which GPU each worker was given, as it was asked for."""
        return {worker: grant.gpu_id for worker, grant in self.worker_grants.items()}

    @property
    def worker_grants(self) -> dict[int, devices.Grant]:
        """What each worker was given: its devices, environment and cores."""
        return dict(zip(self._roster.worker_ids, self._roster.grants, strict=True))

    def run(
        self,
        generator: Iterable[Any],
        on_success: Callable[..., Any],
        on_error: Callable[..., Any] | None = None,
        on_timeout: Callable[..., Any] | None = None,
        on_setup_fail: Callable[..., Any] | None = None,
        on_task_start: Callable[..., Any] | None = None,
        on_exit: Callable[..., Any] | None = None,
        base_seed: int = 42,
        task_timeout: float | None = None,
        *,
        total_tasks: int | None = None,
        on_progress: Callable[..., Any] | None = None,
        **setup_kwargs: Any,
    ) -> dict[str, Any]:
        """Process every item; blocks until all are settled and the workers are gone. Returns the statistics.

        Callbacks run on this thread: ``on_success(task_id, result, worker_id)``, ``on_error(task_id, error,
        worker_id)``, ``on_timeout(task_id, timeout, worker_id)``, ``on_setup_fail(gpu_id, error)``,
        ``on_task_start(task_id, worker_id)``, ``on_progress(event)``, ``on_exit()``. Further keyword arguments go to
        your ``setup()``.
        """
        from gpu_dispatch.options import RunArguments

        if not callable(on_success):
            raise UsageError(f"on_success must be callable, got {on_success!r:.80}")
        arguments = RunArguments(
            items=generator,
            on_success=on_success,
            on_error=on_error,
            on_timeout=on_timeout,
            on_setup_fail=on_setup_fail,
            on_task_start=on_task_start,
            on_exit=on_exit,
            on_progress=on_progress,
            base_seed=base_seed,
            task_timeout=task_timeout,
            total_tasks=total_tasks,
            setup_kwargs=setup_kwargs,
        )
        run, pump = self._prepare(arguments)
        try:
            with self._shown():
                run.execute()
        finally:
            run.release()
            pump.close()
        return self.get_stats()

    def stream(
        self,
        generator: Iterable[Any],
        *,
        base_seed: int = 42,
        task_timeout: float | None = None,
        total_tasks: int | None = None,
        ordered: bool = False,
        **setup_kwargs: Any,
    ) -> Iterator[Outcome]:
        """Iterate over TaskSuccess, TaskError and TaskTimeout as they come, or in the order of the input."""
        from gpu_dispatch.options import RunArguments

        arguments = RunArguments(
            items=generator,
            on_success=None,
            base_seed=base_seed,
            task_timeout=task_timeout,
            total_tasks=total_tasks,
            setup_kwargs=setup_kwargs,
        )
        return self._stream(arguments, ordered=ordered)

    def _stream(self, arguments: RunArguments, *, ordered: bool, begun: list[Run] | None = None) -> Iterator[Outcome]:
        run, pump = self._prepare(arguments)
        if begun is not None:
            begun.append(run)
        try:
            with self._shown():
                yield from run.outcomes(ordered=ordered)
        finally:
            run.release()
            pump.close()

    async def astream(
        self,
        generator: Iterable[Any],
        *,
        base_seed: int = 42,
        task_timeout: float | None = None,
        total_tasks: int | None = None,
        ordered: bool = False,
        **setup_kwargs: Any,
    ) -> AsyncGenerator[Outcome, None]:
        """``stream()`` for asyncio: the event loop is never blocked."""
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        from gpu_dispatch.options import RunArguments

        arguments = RunArguments(
            items=generator,
            on_success=None,
            base_seed=base_seed,
            task_timeout=task_timeout,
            total_tasks=total_tasks,
            setup_kwargs=setup_kwargs,
        )
        begun: list[Run] = []
        outcomes = self._stream(arguments, ordered=ordered, begun=begun)
        loop = asyncio.get_running_loop()
        # One thread for the whole stream, and ours: the default executor's may all be waiting for other streams.
        thread = ThreadPoolExecutor(1, thread_name_prefix="gpu-dispatch-stream")
        nothing = object()
        try:
            while True:
                outcome = await asyncio.shield(loop.run_in_executor(thread, next, outcomes, nothing))
                if outcome is nothing:
                    return
                yield outcome  # type: ignore[misc]
        finally:
            for run in begun:  # if the consumer was cancelled, the thread is waiting for the next outcome
                run.leave()
            await asyncio.shield(loop.run_in_executor(thread, outcomes.close))  # type: ignore[attr-defined]
            thread.shutdown(wait=False)

    def get_stats(self) -> dict[str, Any]:
        """A snapshot of the run that is going on, or of the last one. From any thread, at any time."""
        from gpu_dispatch.observe.stats import empty_snapshot

        stats = self._stats
        return empty_snapshot() if stats is None else stats.snapshot()

    def shutdown(self, drain_timeout: float | None = None, *, wait: bool = True) -> None:
        """Pull no more items, settle what was pulled, clean up. Waits for the end, unless called from a callback.

        With ``drain_timeout``, as after Ctrl-C: what has not begun is cancelled, what runs has so many seconds.
        """
        from gpu_dispatch.options import check_seconds

        if drain_timeout is not None:
            check_seconds("drain_timeout", drain_timeout, zero=True)
        run = self._run
        if run is not None and not run.over:
            run.shutdown(drain_timeout, wait=wait)

    def _shown(self) -> AbstractContextManager[object]:
        """A bar beside the run, for those who asked for one. It pulls; the run does not know of it."""
        from contextlib import closing, nullcontext

        if self._progress is None:
            return nullcontext()
        from gpu_dispatch.ui.progress import start_progress

        return closing(start_progress(self._progress, self.get_stats))

    def _prepare(self, arguments: RunArguments) -> tuple[Run, OutputPump]:
        from gpu_dispatch.assembly import assemble

        refuse_run_during_import()
        with self._lock:
            if self._run is not None and not self._run.over:
                raise RunInProgress(
                    "this dispatcher is running: wait for its run() to return, or use a second Dispatcher"
                )
            run, pump = assemble(self._worker_cls, self._options, arguments, self._roster.copy(), self._batching)
            self._run, self._stats = run, run.stats
            return run, pump
