"""Arrays to real workers and back: equal, writable, kept as long as one likes, and gone when one lets go."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import psutil
import pytest
from batch_workers import ArrayWorker
from recording import Record, run
from scripts import run_script

from gpu_dispatch import Dispatcher

SIZES = [0, 1, 1000, 8191, 8192, 8193, 100_000, 1_000_000, 6_000_000]


def shared_memory() -> int:
    """Bytes of this machine's memory that are shared, as the kernel counts them."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Shmem:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no Shmem in /proc/meminfo")


def shrinks_to(most: int) -> bool:
    """Whether shared memory does, soon. Other programs of this machine have a part in it too."""
    deadline = time.monotonic() + 10
    while shared_memory() > most + (64 << 20):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def mappings(pid: int | str = "self") -> int:
    """How many of our arenas are mapped."""
    return sum("gpu-dispatch-arena" in line for line in Path(f"/proc/{pid}/maps").read_text().splitlines())


@pytest.mark.parametrize("size", SIZES)
def test_arrays_of_any_size_are_equal_and_writable_both_ways(size: int) -> None:
    items = [numpy.arange(size, dtype=numpy.float32) + number for number in range(8)]
    record = run(ArrayWorker, items)
    record.check(8)
    for number, array in record.successes.items():
        assert numpy.array_equal(array, items[number] + 1)
        array[...] = 0
    assert all(numpy.array_equal(item, numpy.arange(size, dtype=numpy.float32) + n) for n, item in enumerate(items))


@pytest.mark.parametrize("in_worker", [False, True], ids=["by the caller", "in the worker"])
def test_thousands_of_arrays_may_be_kept(in_worker: bool) -> None:
    """More than there are pieces: the rest travels another way, and nothing that is kept changes."""
    count = 6000
    record = run(
        ArrayWorker, (numpy.full(10_000, n, dtype=numpy.float32) for n in range(count)), setup={"keep": in_worker}
    )
    record.check(count)
    assert all(array[0] == array[-1] == number + 1 for number, array in record.successes.items())


def test_more_than_the_arena_holds_may_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_dispatch.batching.arena_bytes", lambda workers: 4 << 20)
    record = run(ArrayWorker, [numpy.full(250_000, number, dtype=numpy.float32) for number in range(40)])
    record.check(40)
    assert all((array == number + 1).all() for number, array in record.successes.items())


def test_nothing_is_left_when_the_run_is_over_and_the_arrays_are_gone() -> None:
    gc.collect()
    before, mapped = shared_memory(), mappings()
    record = run(ArrayWorker, [numpy.full(1_000_000, number, dtype=numpy.float32) for number in range(100)])
    assert len(record.successes) == 100
    assert mappings() > mapped, "the results are still in use"
    record.successes.clear()
    del record
    gc.collect()
    assert mappings() == mapped
    assert shrinks_to(before)


def test_workers_killed_in_the_middle_of_transfers_leave_nothing(tmp_path: Path) -> None:
    gc.collect()
    before, mapped, descriptors = shared_memory(), mappings(), len(os.listdir("/proc/self/fd"))
    record = Record()
    dispatcher = Dispatcher(ArrayWorker, [0, 1], max_restarts=50, max_crashes=5, retries=4)
    killed: set[int] = set()

    def living_pid() -> int:
        while True:
            for status in dispatcher.get_stats()["gpu_status"].values():
                if status["pid"] is not None and status["pid"] not in killed:
                    return status["pid"]
            time.sleep(0.001)

    def items() -> Iterator[Any]:
        for number in range(300):
            if number % 20 == 19 and len(killed) < 12:
                pid = living_pid()
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            yield numpy.full(1_000_000, number, dtype=numpy.float32)

    def on_success(task_id: int, result: Any, worker_id: int) -> None:
        record.on_success(task_id, bool((result == task_id + 1).all()), worker_id)

    dispatcher.run(items(), **{**record.callbacks(), "on_success": on_success})
    record.stats = dispatcher.get_stats()
    record.check(300)
    assert len(killed) == 12
    assert set(record.successes.values()) == {True}
    gc.collect()
    assert mappings() == mapped
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert shrinks_to(before)


def test_a_caller_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    before = shared_memory()
    script = tmp_path / "caller.py"
    script.write_text(
        "import numpy, sys\n"
        "from batch_workers import ArrayWorker\n"
        "from gpu_dispatch import Dispatcher\n"
        "def items():\n"
        "    while True:\n"
        "        yield numpy.ones(5_000_000)\n"
        "if __name__ == '__main__':\n"
        "    Dispatcher(ArrayWorker, [0, 1]).run(items(), lambda *_: print('x', flush=True))\n"
    )
    support = str(Path(__file__).parents[1] / "support")
    caller = subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": support}, stdout=subprocess.PIPE
    )
    assert caller.stdout is not None
    for _ in range(10):
        caller.stdout.readline()
    workers = psutil.Process(caller.pid).children(recursive=True)
    assert len(workers) == 2
    caller.kill()
    caller.wait()
    caller.stdout.close()
    deadline = time.monotonic() + 5
    while any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers):
        assert time.monotonic() < deadline, "the workers outlive their parent"
        time.sleep(0.02)
    assert shrinks_to(before)


NO_DEV_SHM = """
    import ctypes, os, sys
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x00020000) or libc.mount(b"none", b"/", None, (1 << 18) | (1 << 14), None):
        print("no namespace"); sys.exit()  # not allowed here: see the test
    if libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=4k"):
        print("no mount"); sys.exit()
    try:
        with open("/dev/shm/full", "wb") as file:
            file.write(b"x" * 100_000)
    except OSError:
        pass
    import numpy
    sys.path.insert(0, {support!r})
    from batch_workers import ArrayWorker
    from gpu_dispatch import Dispatcher
    seen = []
    Dispatcher(ArrayWorker, [0]).run([numpy.ones(3_000_000)] * 10, lambda t, r, w: seen.append(float(r.min())))
    print(seen == [2.0] * 10, os.listdir("/dev/shm"))
"""


def test_a_full_dev_shm_does_not_matter(tmp_path: Path) -> None:
    """In a mount namespace of its own, where that is allowed; in any case nothing of ours is ever in /dev/shm."""
    done = run_script(tmp_path, NO_DEV_SHM.format(support=str(Path(__file__).parents[1] / "support")))
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("no "):
        assert os.geteuid() != 0 or "no namespace" in done.stdout
    else:
        assert done.stdout == "True ['full']\n"
    names = set(os.listdir("/dev/shm"))
    run(ArrayWorker, Watched(names), [0]).check(20)


class Watched:
    """Twenty arrays; at each, a look into /dev/shm."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def __iter__(self) -> Iterator[Any]:
        for _ in range(20):
            assert not {name for name in set(os.listdir("/dev/shm")) - self._names if "gpu" in name}
            yield numpy.ones(1_000_000)
