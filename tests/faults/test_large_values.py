"""Values of many megabytes, kept for as long as the user likes."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plain_workers import Arrays, Echo, Megabytes
from recording import Record, run


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    """As few as a desktop or a container allows, and then some."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = max(int(fd) for fd in os.listdir("/proc/self/fd")) + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, before[1]))
    yield allowed
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_keeping_every_array_does_not_use_up_the_descriptors(few_descriptors: int) -> None:
    record = run(Arrays, range(500))

    record.check(500)
    assert not record.errors
    assert all((array == task_id).all() for task_id, array in record.successes.items())


def test_a_forked_child_that_drops_its_copy_of_a_result_does_not_free_it_here() -> None:
    record = Record()

    def fork_in_the_middle() -> Iterator[int]:
        yield from range(20)
        while len(record.successes) < 20:
            time.sleep(0.005)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fork in a process with threads: people do it
            pid = os.fork()
        if pid == 0:
            record.successes.clear()
            os._exit(0)
        os.waitpid(pid, 0)
        yield from range(20, 40)

    run(Arrays, fork_in_the_middle(), gpu_ids=[0], record=record)

    record.check(40)
    assert all((array == task_id).all() for task_id, array in record.successes.items())


def test_a_result_of_a_hundred_megabytes_arrives_whole() -> None:
    record = run(Megabytes, [100, 0.001])

    record.check(2)
    assert len(record.successes[0]) == 100 << 20
    assert record.elapsed_s < 20


def test_an_item_of_a_hundred_megabytes_arrives_whole() -> None:
    item = os.urandom(1 << 10) * (100 << 10)
    record = run(Echo, [item, 1])

    record.check(2)
    assert record.successes[0] == item


def test_large_items_and_large_results_at_once_do_not_block_each_other() -> None:
    items = [os.urandom(1 << 10) * (4 << 10) for _ in range(40)]
    record = run(Echo, iter(items), queue_size=16)

    record.check(40)
    assert all(record.successes[number] == item for number, item in enumerate(items))


def test_strings_that_no_utf8_can_hold_and_empty_ones_come_back_as_they_went() -> None:
    items = ["", "\ud800 alone", "żółć 🦆 \x00 \u202e", b"", b"\xff\x00", None, [], {}, (), sys.maxsize * 8, -0.5]
    record = run(Echo, items)

    record.check(len(items))
    assert list(dict(sorted(record.successes.items())).values()) == items


class DiesBesideItsResults(Echo):
    """Large results, and then its death, before they could be sent."""

    def process(self, item: tuple[str, int]) -> Any:
        import numpy

        path, number = item
        with open(path, "a") as history:
            history.write(f"{number}\n")
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return numpy.full(25_000, number)


def test_large_results_that_were_not_sent_survive_their_worker_and_are_not_made_again(tmp_path: Path) -> None:
    history = tmp_path / "history"
    record = run(DiesBesideItsResults, [(str(history), number) for number in range(6)], gpu_ids=[0], window=6)

    record.check(6)
    assert set(record.errors) == {3}
    assert all((array == task_id).all() for task_id, array in record.successes.items())
    assert history.read_text().split() == [str(number) for number in range(6)]
