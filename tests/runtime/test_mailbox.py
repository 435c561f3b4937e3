"""Tasks that have arrived and not begun: taken once, given back whole, and never more in hand than allowed."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

from gpu_dispatch.runtime.batch_size import FixedBatchSize
from gpu_dispatch.runtime.collecting import Collector
from gpu_dispatch.runtime.mailbox import Mailbox, Sealed
from gpu_dispatch.runtime.sources import Task
from gpu_dispatch.transport.arena import ArenaReader, ArenaWriter, create_arena_file
from gpu_dispatch.transport.codec import Large, Packer, pack_together
from gpu_dispatch.wire import RunTasks


@pytest.fixture
def arena() -> Iterator[tuple[ArenaWriter, ArenaReader]]:
    fd = create_arena_file(8 << 20)
    ends = ArenaWriter(fd), ArenaReader(fd)
    os.close(fd)
    yield ends
    for end in ends:
        end.close()


@pytest.fixture
def mailbox(arena: tuple[ArenaWriter, ArenaReader]) -> Mailbox:
    return Mailbox(arena[1], in_batches=True)


def deliver(mailbox: Mailbox, *task_ids: int, together: bool = False) -> None:
    mailbox.deliver(RunTasks(task_ids, ("together", pickle.dumps([10 * task_id for task_id in task_ids])), together))


def test_the_oldest_is_taken_and_the_youngest_given_back(mailbox: Mailbox) -> None:
    deliver(mailbox, 1, 2, 3, 4)
    assert mailbox.take() == (1, 10)
    assert mailbox.give_back(2) == [3, 4]
    assert mailbox.give_back(5) == [2]
    assert mailbox.give_back(5) == []


def test_large_items_that_are_given_back_leave_nothing_in_the_arena(arena: Any, mailbox: Mailbox) -> None:
    """They are never opened here: without this, every recall would cost shared memory for the rest of the run."""
    writer, _ = arena
    packer = Packer(writer)
    for number in range(200):
        items = [packer.pack(numpy.full(60_000, number, dtype=numpy.float32)) for _ in range(4)]
        mailbox.deliver(RunTasks((1, 2, 3, 4), ("each", items)))
        assert sorted(mailbox.give_back(10)) == [1, 2, 3, 4]
    assert len(writer._pieces) <= 8


def test_no_more_are_taken_in_hand_than_allowed(mailbox: Mailbox) -> None:
    deliver(mailbox, *range(10))
    taken: list[Any] = []
    limit = 3

    def take_all() -> None:
        while (task := mailbox.take_in_hand(lambda: limit)) is not None:
            taken.append(task)

    threads = [threading.Thread(target=take_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    _eventually(lambda: len(taken) == 3)
    time.sleep(0.02)
    assert len(taken) == 3
    mailbox.put_down(2)
    _eventually(lambda: len(taken) == 5)
    limit = 8  # the batches have grown: noticed with the next task that is put down
    mailbox.put_down(1)
    _eventually(lambda: len(taken) == 10)
    mailbox.finish()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()
    assert not mailbox.exhausted, "seven are still in hand"
    mailbox.put_down(7)
    assert mailbox.exhausted


def test_suspects_wait_until_nothing_else_is_in_hand_and_hold_up_what_comes_after(mailbox: Mailbox) -> None:
    deliver(mailbox, 1)
    deliver(mailbox, 2, 3, together=True)
    deliver(mailbox, 4)
    assert mailbox.take_in_hand(lambda: 10) == (1, 10)
    assert mailbox.take_alone() is None
    mailbox.put_down(1)
    sealed = mailbox.take_alone()
    assert isinstance(sealed, Sealed)
    assert sealed.tasks == [(2, 20), (3, 30)]
    assert mailbox.take_in_hand(lambda: 10) == (4, 40)


def test_one_at_a_time_suspects_are_just_some_tasks(arena: Any) -> None:
    mailbox = Mailbox(arena[1], in_batches=False)
    deliver(mailbox, 2, 3, together=True)
    assert (mailbox.take(), mailbox.take()) == ((2, 20), (3, 30))


def test_items_in_their_pickles_are_opened_by_whoever_runs_them(arena: Any, mailbox: Mailbox) -> None:
    writer, _ = arena
    mailbox.deliver(RunTasks((1,), ("each", [Packer(writer).pack(numpy.ones(100_000))])))
    task_id, item = mailbox.take()  # type: ignore[misc]
    assert task_id == 1
    assert type(item) is Large
    assert mailbox.open(item).sum() == 100_000


@pytest.mark.parametrize("item", [7, "text", b"bytes", None, {"a": [1]}])
def test_an_item_is_opened_to_what_was_sent(arena: Any, mailbox: Mailbox, item: Any) -> None:
    writer, _ = arena
    atoms = pack_together([item])
    payload = ("each", [Packer(writer).pack(item)]) if atoms is None else ("together", atoms)
    mailbox.deliver(RunTasks((1,), payload))
    _, taken = mailbox.take()  # type: ignore[misc]
    assert mailbox.open(taken) == item


def _eventually(true: Any) -> None:
    deadline = time.monotonic() + 5
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


# --- making up batches -------------------------------------------------------------------------------------------


class Listed:
    """A source that has its tasks in a list; ``None`` in it is a moment with nothing there."""

    def __init__(self, mailbox: Mailbox, *tasks: Any) -> None:
        self._mailbox = mailbox
        self._tasks = list(tasks)

    def take(self) -> Task | Sealed | None:
        if not self._tasks:
            self._mailbox.finish()
            return None
        return self._tasks.pop(0)  # type: ignore[no-any-return]

    def done(self, count: int) -> None: ...

    def wait(self, timeout: float | None) -> None: ...


def batches(mailbox: Mailbox, *tasks: Any, size: int = 3, **options: Any) -> list[Any]:
    collector = Collector(Listed(mailbox, *tasks), mailbox, FixedBatchSize(size), **options)
    made = []
    while (batch := collector.next_batch()) is not None:
        made.append(batch.tasks if isinstance(batch, Sealed) else [task_id for task_id, _ in batch])
    return made


def tasks(*costs: float) -> list[Task]:
    return list(enumerate(costs))


def test_a_batch_is_what_is_there_up_to_the_size(mailbox: Mailbox) -> None:
    one, two, three, four, five = tasks(1, 1, 1, 1, 1)
    assert batches(mailbox, one, two, None, three, four, five) == [[0, 1], [2, 3, 4]]


def test_with_a_wait_moments_with_nothing_there_are_waited_out(mailbox: Mailbox) -> None:
    one, two, three, four, five = tasks(1, 1, 1, 1, 1)
    assert batches(mailbox, one, two, None, three, four, five, wait_s=60.0) == [[0, 1, 2], [3, 4]]


def test_the_budget_ends_a_batch_and_nothing_is_lost_over_it(mailbox: Mailbox) -> None:
    made = batches(mailbox, *tasks(4, 4, 4, 9, 99, 1, 1, 1, 1), size=10, cost=float, budget=10.0)
    assert made == [[0, 1], [2], [3], [4], [5, 6, 7, 8]]


def test_suspects_are_neither_mixed_with_others_nor_lost(mailbox: Mailbox) -> None:
    one, two, three = tasks(1, 1, 1)
    assert batches(mailbox, one, Sealed([(7, 0), (8, 0)]), two, three) == [[0], [(7, 0), (8, 0)], [1, 2]]
