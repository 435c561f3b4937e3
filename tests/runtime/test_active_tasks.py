"""What the parent sees of the tasks that run in several threads at once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from gpu_dispatch.runtime.active import ActiveTasks
from gpu_dispatch.transport.board import NEVER, Board, BoardReader, create_board_file


@pytest.fixture
def seen() -> Iterator[tuple[ActiveTasks, BoardReader]]:
    fd = create_board_file()
    board, reader = Board(fd), BoardReader(fd)
    os.close(fd)
    yield ActiveTasks(board), reader
    board.close()
    reader.close()


Seen = tuple[ActiveTasks, BoardReader]


def in_another_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_tasks_of_all_threads_are_seen_each_with_its_own_instant(seen: Seen) -> None:
    active, parent = seen
    first = active.begin([1, 2, 3])
    in_another_thread(lambda: active.begin([7]))
    assert set(parent.running()) == {1, 2, 3, 7}
    assert parent.oldest() == ((1, 2, 3), first)
    active.end([1, 2, 3])
    assert parent.oldest()[0] == (7,)


def test_a_thread_that_waits_for_the_parent_stops_the_clocks_of_its_own_tasks_only(seen: Seen) -> None:
    """Else a task that hangs in one thread would be hidden by another that waits."""
    active, parent = seen
    active.begin([1])
    in_another_thread(lambda: active.begin([7]))
    since = parent.running()[7]
    active.stop_clocks()
    assert parent.running() == {1: NEVER, 7: since}
    assert parent.oldest() == ((7,), since)
    active.resume_clocks()
    assert parent.running()[7] == since


def test_the_time_waited_does_not_count(seen: Seen) -> None:
    active, parent = seen
    began_at = active.begin([1])
    active.stop_clocks()
    time.sleep(0.05)
    active.begin([2])  # while waiting: a thread may begin another task
    active.resume_clocks()
    running = parent.running()
    assert running[1] >= began_at + 0.05
    assert running[2] <= time.monotonic()


def test_a_thread_without_tasks_stops_nothing(seen: Seen) -> None:
    active, parent = seen
    in_another_thread(lambda: active.begin([7]))
    since = parent.running()[7]
    active.stop_clocks()
    active.resume_clocks()
    assert parent.running() == {7: since}


def test_a_process_about_to_end_names_those_to_blame_and_nobody_else(seen: Seen) -> None:
    active, parent = seen
    active.begin([1, 2])
    in_another_thread(lambda: active.begin([7]))
    active.blame([1, 2])
    assert set(parent.running()) == {1, 2}
    in_another_thread(lambda: active.begin([8]))
    active.stop_clocks()
    active.end([1])
    assert set(parent.running()) == {1, 2}
