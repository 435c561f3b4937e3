"""A simulated GPU, to see what batches and overlap are worth: `python -m benchmarks.simulated_gpu`.

Every item takes 8 ms of I/O. The device takes 5 ms a call and 0.25 ms an item, and has memory for 48 items. So:

    one item after the other                    13.25 ms an item, the device busy for 40 % of it
    16 I/O threads, all of them always busy     2,000 items a second at most: the limit of this load
    the device, in batches of 48                2,824 items a second at most

How busy the device is counts by what a call must take, not by what it took: a late wake-up is idleness.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_dispatch import BaseWorker, Dispatcher

CALL_S = 0.005
ITEM_S = 0.00025
IO_S = 0.008
MEMORY = 48
IO_THREADS = 16
WARM_UP_S = 1.0
"""After the first call: the size of the batches is being learnt, which takes some thirty calls."""


class Device:
    """Notes every call, one line each: when it began, and how many items it had; or that they did not fit."""

    def __init__(self, log: str) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def call(self, items: list[Any]) -> list[Any]:
        began_at = time.monotonic()
        if len(items) > MEMORY:
            os.write(self._log, f"{began_at} 0\n".encode())
            raise RuntimeError(f"CUDA out of memory. Tried to allocate {len(items)} items, {MEMORY} fit.")
        time.sleep(CALL_S + ITEM_S * len(items))
        os.write(self._log, f"{began_at} {len(items)}\n".encode())
        return items


class OneByOne(BaseWorker):
    """As one writes it first."""

    def setup(self, gpu_id: int, seed: int, log: str) -> None:
        self.device_ = Device(log)

    def process(self, item: Any) -> Any:
        time.sleep(IO_S)
        return self.device_.call([item])[0]


class Overlapped(OneByOne):
    """I/O beside the device, and batches."""

    def preprocess(self, item: Any) -> Any:
        time.sleep(IO_S)
        return item

    def process_batch(self, items: list[Any]) -> list[Any]:
        return self.device_.call(items)


class OverlappedOneByOne(OneByOne):
    """I/O beside the device, no batches."""

    def preprocess(self, item: Any) -> Any:
        time.sleep(IO_S)
        return item

    def process(self, item: Any) -> Any:
        return self.device_.call([item])[0]


class BatchedOnly(OneByOne):
    """Batches, each of which does its own I/O first."""

    def process_batch(self, items: list[Any]) -> list[Any]:
        time.sleep(IO_S * len(items))
        return self.device_.call(items)


@dataclass(frozen=True, slots=True)
class Measured:
    items_per_s: float
    busy: float
    """Part of the time after the warm-up for which the device had something to do."""
    mean_batch: float
    oom: int
    late_oom: int
    """Out of memory after the warm-up."""
    lost: int


def measure(work: Callable[[int, str], int], count: int) -> Measured:
    """``work(count, log)`` has ``count`` items done, and returns how many it got back."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "calls")
        done = work(count, str(log))
        return judge(log, count - done)


def judge(log: Path, lost: int = 0) -> Measured:
    calls = [(float(began_at), int(size)) for began_at, size in (line.split() for line in log.read_text().splitlines())]
    warm_at = calls[0][0] + WARM_UP_S
    warm = [(began_at, size) for began_at, size in calls if began_at >= warm_at]
    # From the first call to the beginning of the last: at the end of the input the device runs dry in any case.
    span_s = warm[-1][0] - warm[0][0]
    busy_s = sum(CALL_S + ITEM_S * size for _, size in warm[:-1] if size)
    sizes = [size for _, size in warm if size]
    return Measured(
        items_per_s=sum(size for _, size in warm[:-1]) / span_s,
        busy=busy_s / span_s,
        mean_batch=sum(sizes) / len(sizes),
        oom=sum(size == 0 for _, size in calls),
        late_oom=sum(size == 0 for _, size in warm),
        lost=lost,
    )


def with_gpu_dispatch(worker_cls: type[BaseWorker], **options: Any) -> Callable[[int, str], int]:
    def work(count: int, log: str) -> int:
        done = 0

        def on_success(task_id: int, result: Any, worker_id: int) -> None:
            nonlocal done
            done += result == task_id

        Dispatcher(worker_cls, [0], **options).run(range(count), on_success, log=log)
        return done

    return work


def with_ray_data(count: int, log: str) -> int:
    """A stage of 16 tasks for the I/O, an actor for the device; the size of the batches has to be known."""
    from benchmarks.systems.ray_session import ray_session

    def load(row: dict[str, Any]) -> dict[str, Any]:
        time.sleep(IO_S)
        return row

    class Model:
        def __init__(self) -> None:
            self.device = Device(log)

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            self.device.call(list(batch["id"]))
            return batch

    with ray_session(IO_THREADS + 1):
        import ray

        rows = ray.data.range(count, override_num_blocks=max(IO_THREADS, count // 100)).map(load, num_cpus=1)
        # Different resources, or Ray would fuse the two stages into one that loads and computes in turn.
        done = rows.map_batches(Model, batch_size=MEMORY, concurrency=1, num_cpus=0.5)
        return sum(1 for _ in done.iter_rows())


def systems(seconds: float) -> dict[str, tuple[Callable[[int, str], int], int]]:
    """Name → (how, and with how many items it takes about ``seconds``)."""
    found = {
        "one by one": (with_gpu_dispatch(OneByOne), int(75 * seconds)),
        "batches of 48, no overlap": (with_gpu_dispatch(BatchedOnly, batch_size=MEMORY), int(120 * seconds)),
        "overlap, no batches": (with_gpu_dispatch(OverlappedOneByOne, io_threads=IO_THREADS), int(190 * seconds)),
        'overlap, batch_size="auto"': (with_gpu_dispatch(Overlapped, io_threads=IO_THREADS), int(1900 * seconds)),
        # With I/O for 4,000 items a second the device is the limit, and its memory is what has to be learnt.
        "the same with 32 I/O threads": (with_gpu_dispatch(Overlapped, io_threads=32), int(2700 * seconds)),
    }
    if importlib.util.find_spec("ray") is not None:
        found["Ray Data map_batches(batch_size=48)"] = (with_ray_data, int(600 * seconds))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="about how long each system runs")
    seconds = parser.parse_args().seconds
    print(f"{'':38}{'items/s':>9}{'device busy':>13}{'items a call':>14}{'OOM':>6}{'later':>7}{'lost':>6}")
    for name, (work, count) in systems(seconds).items():
        got = measure(work, count)
        print(
            f"{name:38}{got.items_per_s:9,.0f}{got.busy:13.1%}{got.mean_batch:14.1f}{got.oom:6}{got.late_oom:7}{got.lost:6}",
            flush=True,
        )
    if importlib.util.find_spec("ray") is None:
        print("(Ray Data is not installed: `pip install 'ray[data]'` adds its line)", file=sys.stderr)


if __name__ == "__main__":
    main()
