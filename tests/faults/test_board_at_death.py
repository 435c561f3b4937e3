"""A worker may be killed between any two of its stores: what the parent then reads is still true."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from gpu_dispatch.transport.board import Board, BoardReader, create_board_file
from gpu_dispatch.transport.rows import VALUE


@pytest.fixture
def fd() -> Iterator[int]:
    fd = create_board_file()
    yield fd
    os.close(fd)


class KilledAfter(dict[int, float]):
    """Tasks to be noted by a worker that is killed when it has noted ``survived`` of them."""

    survived = 0

    def items(self):
        for count, item in enumerate(super().items()):
            if count == self.survived:
                raise InterruptedError("killed here")
            yield item


@pytest.mark.parametrize("survived", [0, 1, 2])
def test_a_worker_killed_while_it_notes_a_batch_has_the_tasks_it_had_before(fd: int, survived: int) -> None:
    board, reader = Board(fd), BoardReader(fd)
    board.start_many({7: 1.0, 8: 1.0})
    tasks = KilledAfter({7: 1.0, 8: 1.0, 9: 2.0})
    tasks.survived = survived

    with pytest.raises(InterruptedError):
        board.start_many(tasks)

    assert reader.running() == {7: 1.0, 8: 1.0}


def test_lists_of_tasks_follow_each_other_and_end_in_rest(fd: int) -> None:
    board, reader = Board(fd), BoardReader(fd)
    for count in (3, 1, 4096, 2, 0, 5):
        board.start_many({task_id: float(count) for task_id in range(count)})
        assert reader.running() == {task_id: float(count) for task_id in range(count)}
    board.start(11, 6.0)
    assert reader.running() == {11: 6.0}
    board.rest()
    assert reader.running() == {}


def test_a_row_that_was_not_finished_is_not_read(fd: int) -> None:
    board, reader = Board(fd), BoardReader(fd)
    board.add(1, 0.5, VALUE, b"whole")

    with pytest.raises(TypeError):
        board.add(2, 0.5, VALUE, [None] * 5)  # fails half-way

    rows = reader.last_rows()
    assert rows is not None
    assert rows.ids == [1]
