"""Putting a run together: who works where, what each worker is told, and the parts of the engine.

``Roster`` says which worker has which device; it grows during a run when workers are packed automatically.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from gpu_dispatch import devices
from gpu_dispatch.backends import travel
from gpu_dispatch.backends.contract import Backend
from gpu_dispatch.backends.descriptors import ensure_descriptors
from gpu_dispatch.backends.local import LocalBackend
from gpu_dispatch.backends.output import OutputPump
from gpu_dispatch.batching import Batching
from gpu_dispatch.engine.run import Run
from gpu_dispatch.observe.stats import RunStats
from gpu_dispatch.options import Options, RunArguments
from gpu_dispatch.scheduling import SchedulerSettings
from gpu_dispatch.wire import Boot
from gpu_dispatch.worker import BaseWorker


class Roster:
    def __init__(self, grants: Sequence[devices.Grant], *, one_per_gpu: bool) -> None:
        self.grants = list(grants)
        self.worker_ids = list(range(len(self.grants)))
        ids = [grant.gpu_id for grant in self.grants]
        if one_per_gpu and all(isinstance(gpu_id, int) for gpu_id in ids):
            self.worker_ids = [int(gpu_id) for gpu_id in ids]  # the GPU's own number, where that names one worker
        self.gpu_of = _numbered(ids)

    def __len__(self) -> int:
        return len(self.grants)

    def copy(self) -> Roster:
        twin = Roster((), one_per_gpu=False)
        twin.grants, twin.worker_ids = list(self.grants), list(self.worker_ids)
        twin.gpu_of = list(self.gpu_of)
        return twin

    def add_like(self, slot: int) -> int:
        """One more worker on the device of ``slot``; returns its slot."""
        self.grants.append(self.grants[slot])
        self.worker_ids.append(max(self.worker_ids) + 1)
        return len(self.grants) - 1


def _numbered(ids: Sequence[int | str]) -> list[int]:
    """Equal ids, equal numbers."""
    order: dict[int | str, int] = {}
    return [order.setdefault(gpu_id, len(order)) for gpu_id in ids]


def assemble(
    worker_cls: type[BaseWorker], options: Options, arguments: RunArguments, roster: Roster, batching: Batching
) -> tuple[Run, OutputPump]:
    """A run that is ready to start. Nothing is started, but what workers print has somewhere to go."""
    luggage = travel.pack(worker_cls, arguments.setup_kwargs)
    batching.begin_run()
    if options.backend == "local":
        ensure_descriptors(len(roster))
    stats = RunStats((), _expected_total(arguments), arguments.task_timeout)
    log_dir = None if options.log_dir is None else os.fspath(options.log_dir)
    pump = OutputPump(suppress=options.suppress_worker_output, log_dir=log_dir)
    stats.output = lambda: list(pump.recent)
    stats.log_dir = log_dir

    def enter(slot: int) -> None:
        grant, worker_id = roster.grants[slot], roster.worker_ids[slot]
        stats.add_worker(worker_id, grant.gpu_id, grant.device, pump.log_path(worker_id))

    with ExitStack() as undo:
        undo.callback(pump.close)
        for slot in range(len(roster)):
            enter(slot)
        backend = _backend(worker_cls, options, roster, pump, luggage)
        undo.callback(backend.close)
        run = Run(
            arguments,
            options,
            scheduler_settings(options, arguments, roster, batching),
            backend,
            stats,
            roster.worker_ids,
            lambda slot: _boot(slot, roster, luggage, arguments, batching),
            devices.hint_for_setup_error,
            lambda slot, learnt: batching.learn(slot, roster.grants[slot], learnt),
            lambda like: enter(roster.add_like(like)),
            roster.gpu_of if options.workers_per_gpu == "auto" else None,
        )
        undo.pop_all()
    return run, pump


def scheduler_settings(
    options: Options, arguments: RunArguments, roster: Roster, batching: Batching
) -> SchedulerSettings:
    return SchedulerSettings(
        slots=len(roster),
        devices=tuple(roster.gpu_of),
        retry=options.retry_policy,
        max_restarts=options.max_restarts,
        max_crashes=options.max_crashes,
        task_timeout=arguments.task_timeout,
        timeout_grace=options.timeout_grace,
        setup_timeout=options.setup_timeout,
        cleanup_timeout=options.cleanup_timeout,
        setup_concurrency=options.setup_concurrency,
        cores=devices.core_budget(),
        batch_size=batching.at_once,
        batch_wait_s=options.batch_wait,
        overlaps=batching.overlaps,
        fixed_window=options.window,
        speculate=options.speculate,
    )


def _backend(
    worker_cls: type[BaseWorker], options: Options, roster: Roster, pump: OutputPump, luggage: travel.Luggage
) -> Backend:
    if options.backend == "inline":
        from gpu_dispatch.backends.inline import InlineBackend  # here: it brings the whole runtime of a worker along

        return InlineBackend(worker_cls)
    return LocalBackend(
        roster.grants,
        roster.worker_ids,
        options.env,
        pump,
        monitor=devices.DeviceMonitor(),
        main_is_imported=luggage.main_is_imported,
    )


def _boot(slot: int, roster: Roster, luggage: travel.Luggage, arguments: RunArguments, batching: Batching) -> Boot:
    grant = roster.grants[slot]
    listens = arguments.on_task_start is not None or arguments.on_progress is not None
    return Boot(
        worker_id=roster.worker_ids[slot],
        gpu_id=grant.gpu_id,
        device=grant.device,
        seed=arguments.base_seed + slot,
        base_seed=arguments.base_seed,
        task_timeout=arguments.task_timeout,
        sys_path=tuple(sys.path),
        argv=tuple(sys.argv),
        main_path=luggage.main_path,
        main_name=luggage.main_name,
        worker_cls=luggage.worker_cls,
        setup_kwargs=luggage.setup_kwargs,
        plan=batching.plan(slot, grant, announce_starts=listens),
    )


def _expected_total(arguments: RunArguments) -> int | None:
    if arguments.total_tasks is not None:
        return arguments.total_tasks
    try:
        return len(arguments.items)  # type: ignore[arg-type]
    except Exception:  # no length, or none that can be told: lazy data sets raise all kinds of errors
        return None
