"""Where the microseconds of one task go: ``python -m benchmarks.profile_stages --load empty``.

    feeder ─► scheduler ─► encode ─► write ─┐                    ┌─► read ─► decode ─► delivery
                                            └─► worker: read, decode, your code, encode, write ─┘

Functions of the core are wrapped with a meter that counts processor time of their thread, without that of wrapped
functions inside them: waiting for a pipe, a lock or another thread does not count. In a worker, its ``setup`` does the
wrapping. What the meter itself costs is measured and taken off again; the rate is measured without it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from benchmarks.function_worker import FunctionWorker
from benchmarks.job import Job
from benchmarks.loads import BY_NAME, Figure
from benchmarks.systems import gpu_dispatch as adapter
from gpu_dispatch import Dispatcher


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    targets: tuple[str, ...]
    """``module:function`` or ``module:Class.method``. A thread's main function stands for the rest of the thread."""


IN_PARENT = (
    Stage("feeder: the generator, and buffering what it yields", ("gpu_dispatch.engine.feeder:Feeder._pull",)),
    Stage("loop: taking items, bookkeeping, waking up", ("gpu_dispatch.engine.loop:Loop._main",)),
    Stage("scheduler", ("gpu_dispatch.scheduling:Scheduler.handle",)),
    Stage("encode", ("gpu_dispatch.backends.local:LocalBackend.send_tasks",)),
    Stage("write", ("gpu_dispatch.transport.channel:Channel.flush",)),
    Stage("poll", ("gpu_dispatch.backends.local:LocalBackend.wait",)),
    Stage("read", ("gpu_dispatch.transport.channel:Channel.receive",)),
    Stage(
        "decode",
        (
            "gpu_dispatch.backends.local:read_frame",
            "gpu_dispatch.backends.local:take_rows",
            "gpu_dispatch.backends.opening:open_pickles",
        ),
    ),
    Stage("delivery, with your callback", ("gpu_dispatch.engine.delivery:Delivery.deliver",)),
)
RUNNER = "worker: bookkeeping around a task"
IN_WORKER = (
    Stage("worker: read and decode", (
        "gpu_dispatch.transport.worker_channel:WorkerChannel.receive",
        "gpu_dispatch.runtime.mailbox:Mailbox.deliver",
        "gpu_dispatch.runtime.runner:loads",
        "gpu_dispatch.runtime.mailbox:Mailbox.open",
    )),
    Stage(RUNNER, ("gpu_dispatch.runtime.runner:TaskRunner.run",)),
    Stage("worker: your code", ("benchmarks.function_worker:FunctionWorker.process",)),
    Stage("worker: encode", ("gpu_dispatch.runtime.outbox:Outbox.succeed",)),
    Stage("worker: write", (
        "gpu_dispatch.transport.worker_channel:WorkerChannel.send_frame",
        "gpu_dispatch.transport.worker_channel:WorkerChannel.send",
    )),
)  # fmt: skip


class Meter:
    """Processor time and calls per stage. One per process."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self.clock = clock
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self._inside = threading.local()  # a stack per thread: time already counted by wrapped functions inside

    def install(self, stages: tuple[Stage, ...]) -> None:
        for stage in stages:
            for target in stage.targets:
                owner, name = locate(target)
                setattr(owner, name, self.wrap(stage.name, getattr(owner, name)))

    def wrap(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        seconds, calls, inside, clock = self.seconds, self.calls, self._inside, self.clock
        seconds.setdefault(stage, 0.0)
        calls.setdefault(stage, 0)

        @wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            try:
                stack = inside.stack
            except AttributeError:
                stack = inside.stack = []
            stack.append(0.0)
            began = clock()
            try:
                return function(*args, **kwargs)
            finally:
                spent = clock() - began
                seconds[stage] += spent - stack.pop()
                calls[stage] += 1
                if stack:
                    stack[-1] += spent

        return measured

    def as_dict(self) -> dict[str, list[float]]:
        return {stage: [self.seconds[stage], self.calls[stage]] for stage in self.seconds}


def locate(target: str) -> tuple[Any, str]:
    """(the module or class, the name in it)"""
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *classes, name = path.split(".")
    for part in classes:
        owner = getattr(owner, part)
    getattr(owner, name)  # fail here, with the name, rather than later
    return owner, name


def meter_cost_s() -> tuple[float, float]:
    """What one wrapped call costs: (inside its own figure, in the figure of the function around it)."""

    def nothing() -> None:
        pass

    def many(function: Callable[[], None], times: int = 20_000) -> None:
        for _ in range(times):
            function()

    meter = Meter()
    meter.wrap("outer", many)(meter.wrap("inner", nothing))
    bare = Meter()
    bare.wrap("outer", many)(nothing)
    return meter.seconds["inner"] / 20_000, max(0.0, meter.seconds["outer"] - bare.seconds["outer"]) / 20_000


class ProfiledWorker(FunctionWorker):
    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        super().setup(gpu_id, seed, **kwargs)
        self._report = Path(kwargs["folder"], f"{self.worker_id}.json")
        self._meter = Meter()
        self._meter.install(IN_WORKER)

    def cleanup(self) -> None:
        self._report.write_text(json.dumps(self._meter.as_dict()), encoding="utf-8")


def profile(job: Job) -> dict[str, float]:
    """Stage → microseconds of processor time per task, in the order of a task's way."""
    meter = Meter()
    meter.install(IN_PARENT)
    with tempfile.TemporaryDirectory() as folder:
        Dispatcher(ProfiledWorker, list(range(job.workers))).run(
            job.items(),
            lambda _task_id, result, _worker_id: job.take(result),
            task_timeout=adapter.TASK_TIMEOUT_S,
            function=job.work,
            folder=folder,
        )
        reports = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("*.json"))]
    return per_task_us([meter.as_dict(), *reports], job.count, meter_cost_s())


def per_task_us(reports: list[dict[str, list[float]]], tasks: int, meter_cost: tuple[float, float]) -> dict[str, float]:
    own, around = meter_cost
    total: dict[str, float] = {}
    for report in reports:
        for stage, (seconds, calls) in report.items():
            # Which function is around which is not recorded. Only a worker's main function has wrapped calls for
            # every single task inside it, so the rest of their cost is taken off there.
            nested = sum(c for s, (_, c) in report.items() if s != stage) if stage == RUNNER else 0
            total[stage] = total.get(stage, 0.0) + seconds - calls * own - nested * around
    return {stage: max(0.0, seconds) / tasks * 1e6 for stage, seconds in total.items()}


def rate_without_meter(job: Job) -> float:
    adapter.run(job)
    return job.count / job.elapsed_s


def text(load: str, rate: float, stages: Mapping[str, float]) -> str:
    parent = sum(us for stage, us in stages.items() if not stage.startswith("worker"))
    whole = sum(stages.values())
    lines = [
        f"{BY_NAME[load].title}: {rate:,.0f} tasks/s without the meter, {1e6 / rate:.2f} µs of wall time a task",
        "",
        "| stage | µs a task | share |",
        "| --- | --: | --: |",
        *(f"| {stage} | {us:.2f} | {us / whole:.0%} |" for stage, us in stages.items()),
        f"| **parent** | **{parent:.2f}** | {parent / whole:.0%} |",
        f"| **all workers** | **{whole - parent:.2f}** | {1 - parent / whole:.0%} |",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    profilable = [name for name, load in BY_NAME.items() if load.figure is Figure.RATE]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile_stages")
    parser.add_argument("--load", action="append", choices=profilable, help="default: empty, records and arrays_in")
    parser.add_argument("--count", type=int, default=None, help="tasks per load")
    args = parser.parse_args()
    counts = {"empty": 100_000, "empty_call": 20_000, "records": 50_000, "sleep_1ms": 4_000, "sleep_10ms": 400}
    for name in args.load or ["empty", "records", "arrays_in"]:
        count = args.count or counts.get(name, 2_000)
        load = BY_NAME[name]
        rate = rate_without_meter(load.make(count, 0))
        print(text(name, rate, profile(load.make(count, 0))), flush=True)


if __name__ == "__main__":
    main()
