"""What a worker has finished survives its death at any instant, and is told once."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_dispatch.backends.contract import TasksAnswered
from gpu_dispatch.backends.opening import open_last_rows, open_rows
from gpu_dispatch.transport.arena import ArenaReader, ArenaWriter
from gpu_dispatch.transport.board import (
    DATA_BYTES,
    END,
    MOST_ROWS,
    MOST_RUNNING,
    ROWS_AT,
    RUNNING,
    TAGS_AT,
    Board,
    BoardReader,
    create_board_file,
)
from gpu_dispatch.transport.codec import Large, Packer, large_to_bytes
from gpu_dispatch.transport.frames import BrokenFrame, FrameKind
from gpu_dispatch.transport.rows import FAILURE, FLOAT_ROW, HEAD, LARGE, ROW, VALUE, read_frame
from gpu_dispatch.wire import Failure


@pytest.fixture
def board() -> Iterator[tuple[Board, BoardReader]]:
    fd = create_board_file()
    pair = Board(fd), BoardReader(fd)
    os.close(fd)
    yield pair
    for end in pair:
        end.close()


Pair = tuple[Board, BoardReader]
Arena = tuple[ArenaWriter, ArenaReader]
NO_ARENA: Any = None


def frame_of(board: Board) -> tuple[tuple[int, int], TasksAnswered]:
    """The frame as it arrives: (number of the first row and how many, what it brings)."""
    kind, *parts = board.frame()
    assert kind == FrameKind.RESULTS
    first, rows = read_frame(memoryview(b"".join(bytes(part) for part in parts)))
    return (first, len(rows.ids)), open_rows(rows, NO_ARENA, 0)


def last_of(parent: BoardReader) -> TasksAnswered:
    rows = parent.last_rows()
    return TasksAnswered([], [], [], []) if rows is None else open_last_rows(rows, NO_ARENA)


def test_large_values_that_were_not_sent_are_read_from_a_dead_worker(board: Pair, arena: Arena) -> None:
    worker, parent = board
    writer, reader = arena
    packed = Packer(writer).pack(b"x" * 100_000)
    assert isinstance(packed, Large)
    worker.add(1, 0.5, LARGE, large_to_bytes(packed))
    worker.add(2, 0.5, LARGE, pickle.dumps("no such place"))

    rows = parent.last_rows()
    assert rows is not None
    answered = open_rows(rows, reader, 50)

    assert (answered.task_ids, answered.values) == ([1], [b"x" * 100_000])
    assert 100_000 < answered.size < 101_000
    assert [task_id for task_id, _, _ in answered.failures] == [2]


def test_rows_that_were_not_sent_are_read_from_a_dead_worker(board: Pair) -> None:
    worker, parent = board
    failure = Failure("error", "it failed")
    worker.add_number(1, 0.5, -7)
    worker.add_number(2, 0.5, 2.5)
    worker.add(3, 0.25, VALUE, pickle.dumps({"a": 1}))
    worker.add(4, 0.25, FAILURE, pickle.dumps(failure))
    worker.add_number(5, 0.5, 8)
    answered = last_of(parent)
    assert answered.task_ids == [1, 2, 3, 5]
    assert answered.values == [-7, 2.5, {"a": 1}, 8]
    assert answered.busy_s == [0.5, 0.5, 0.25, 0.5]
    assert answered.failures == [(4, 0.25, failure)]


def test_a_death_between_sending_and_noting_it_tells_nothing_twice(board: Pair) -> None:
    """The frame has arrived, and ``sent()`` was never reached."""
    worker, parent = board
    worker.add_number(1, 0.5, 7)
    span, _ = frame_of(worker)
    parent.note_received(*span)
    assert parent.last_rows() is None


def test_a_death_before_the_frame_was_out_loses_nothing(board: Pair) -> None:
    worker, parent = board
    worker.add_number(1, 0.5, 7)
    span, _ = frame_of(worker)
    parent.note_received(*span)
    worker.sent()
    worker.add_number(2, 0.5, 8)
    frame_of(worker)  # made, and not sent
    assert last_of(parent).task_ids == [2]


def test_rows_that_were_added_while_a_frame_was_on_its_way_come_with_the_next(board: Pair) -> None:
    worker, parent = board
    worker.add(1, 0.5, VALUE, pickle.dumps("one"))
    span, first = frame_of(worker)
    worker.add(2, 0.5, VALUE, pickle.dumps("two"))
    worker.add_number(3, 0.5, 3)
    parent.note_received(*span)
    worker.sent()
    assert last_of(parent).values == ["two", 3]
    _, second = frame_of(worker)
    assert (first.values, second.values) == (["one"], ["two", 3])


def test_a_row_that_never_was_on_the_board_has_a_number_too(board: Pair) -> None:
    worker, parent = board
    _, head, body = worker.frame_of(1, 0.5, VALUE, pickle.dumps("large"))
    first, rows = read_frame(memoryview(head + body))
    parent.note_received(first, len(rows.ids))
    worker.skip_number()
    worker.add_number(2, 0.5, 7)
    assert last_of(parent).task_ids == [2]


KINDS = {
    "int": lambda i: i,
    "float": lambda i: i + 0.5,
    "text": lambda i: f"text {i}",
    "none": lambda i: None,
    "failure": lambda i: Failure("error", str(i)),
}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*KINDS, "send", "send and clear", "made but not sent", "not noted"]), max_size=60))
def test_whenever_the_worker_dies_each_result_is_told_once(steps: list[str]) -> None:
    """Whatever kinds of results follow each other."""
    fd = create_board_file()
    worker, parent = Board(fd), BoardReader(fd)
    os.close(fd)
    wanted: dict[int, object] = {}
    told: dict[int, object] = {}

    def tell(answered: TasksAnswered) -> None:
        news = dict(zip(answered.task_ids, answered.values, strict=True))
        news.update((task_id, failure) for task_id, _, failure in answered.failures)
        assert not news.keys() & told.keys()
        told.update(news)

    for task_id, step in enumerate(steps):
        if step in KINDS:
            value = wanted[task_id] = KINDS[step](task_id)
            if type(value) is worker.plain and task_id % 2:  # as the runner does it
                end, _, pack = worker.cursor()
                pack(worker.rows, end, task_id, 0.1, value)
                worker.words[END] = end + ROW.size
            elif step in ("int", "float"):
                assert worker.add_number(task_id, 0.1, value)  # type: ignore[arg-type]
            else:
                assert worker.add(task_id, 0.1, FAILURE if step == "failure" else VALUE, pickle.dumps(value))
        elif worker.has_unsent:
            span, answered = frame_of(worker)
            if step.startswith("send"):
                tell(answered)
                parent.note_received(*span)
                worker.sent()
            if step == "send and clear":
                worker.clear()
            if step == "not noted":
                tell(answered)
                parent.note_received(*span)
                break
    tell(last_of(parent))
    assert told == wanted
    assert [type(told[task_id]) for task_id in told] == [type(wanted[task_id]) for task_id in told]
    parent.close()


@pytest.mark.parametrize("numbers", [[3, -4, 2**62], [2.5, float("inf"), -0.0], [1, 2.5, 3]])
def test_numbers_open_to_the_same(board: Pair, numbers: list[float]) -> None:
    worker, _ = board
    for _ in range(2):  # the second time, the worker knows what its results usually are
        for task_id, number in enumerate(numbers):
            assert worker.add_number(task_id, 0.1, number)
        _, answered = frame_of(worker)
        worker.sent()
        worker.clear()
        assert answered.values == numbers
        assert list(map(type, answered.values)) == list(map(type, numbers))


def test_an_int_of_more_than_64_bits_and_a_full_board_are_refused(board: Pair) -> None:
    worker, parent = board
    assert not worker.add_number(1, 0.1, 2**63)
    assert not worker.add(1, 0.1, VALUE, bytes(DATA_BYTES + 1))
    count = 0
    while worker.add_number(count, 0.1, count):
        count += 1
    assert count == MOST_ROWS
    assert not worker.add(count, 0.1, VALUE, b"")
    assert len(last_of(parent).task_ids) == count
    frame_of(worker)
    worker.sent()
    worker.clear()
    assert worker.add_number(1, 0.1, 1)
    assert worker.add(2, 0.1, VALUE, bytes(DATA_BYTES))
    assert not worker.add(3, 0.1, VALUE, b"x")


def test_a_row_with_more_data_than_the_board_holds_is_a_frame_by_itself(board: Pair) -> None:
    worker, _ = board
    data = pickle.dumps("x" * 100_000)
    kind, head, body = worker.frame_of(5, 0.5, VALUE, data)
    assert kind == FrameKind.RESULTS
    _, rows = read_frame(memoryview(head + body))
    answered = open_rows(rows, NO_ARENA, 0)
    assert (answered.task_ids, answered.values) == ([5], ["x" * 100_000])


def test_a_result_that_will_not_open_is_its_own_tasks_failure(board: Pair) -> None:
    worker, parent = board
    worker.add(1, 0.1, VALUE, pickle.dumps("good"))
    worker.add(2, 0.1, VALUE, b"not a pickle")
    worker.add(3, 0.1, VALUE, pickle.dumps("good too"))
    for answered in (last_of(parent), frame_of(worker)[1]):
        assert answered.task_ids == [1, 3]
        assert answered.values == ["good", "good too"]
        assert [(task_id, failure.kind) for task_id, _, failure in answered.failures] == [(2, "transport")]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 12), st.binary(max_size=300))
def test_garbage_is_refused_and_nothing_else(count: int, data: bytes) -> None:
    for body in (data, HEAD.pack(0, count, 0) + data, HEAD.pack(0, count, 7) + data):
        try:
            answered = open_rows(read_frame(memoryview(body))[1], NO_ARENA, 0)
        except BrokenFrame:
            continue
        assert len(answered.task_ids) == len(answered.values) == len(answered.busy_s)


def test_rows_that_a_wild_pointer_destroyed_give_what_can_still_be_read(board: Pair) -> None:
    worker, parent = board
    for task_id in range(100):
        worker.add_number(task_id, 0.1, task_id)
    chance = random.Random(3)
    for _ in range(200):
        row = chance.randrange(40, MOST_ROWS)
        parent._map[ROWS_AT + row * ROW.size + chance.randrange(ROW.size)] = chance.randrange(256)
        parent._map[TAGS_AT + row] = chance.randrange(256)
        last_of(parent)  # whatever it finds there, it does not raise
    assert last_of(parent).task_ids[:40] == list(range(40))
    parent._words[END] = 2**63
    parent._words[RUNNING] = 2**64 - 1
    last_of(parent)
    assert len(parent.running()) <= MOST_RUNNING


def test_a_frame_cut_short_is_refused(board: Pair) -> None:
    worker, _ = board
    worker.add(1, 0.1, VALUE, pickle.dumps("12345"))
    whole = b"".join(bytes(part) for part in worker.frame()[1:])
    assert open_rows(read_frame(memoryview(whole))[1], NO_ARENA, 0).values == ["12345"]
    for length in range(len(whole)):
        with pytest.raises(BrokenFrame):
            open_rows(read_frame(memoryview(whole[:length]))[1], NO_ARENA, 0)


def test_rows_of_ints_and_of_floats_have_one_layout() -> None:
    assert ROW.size == FLOAT_ROW.size == 24


def test_the_oldest_tasks_are_those_of_one_batch(board: Pair) -> None:
    worker, parent = board
    assert parent.oldest() == ((), None)
    worker.start_many({1: 5.0, 2: 5.0, 9: 7.0})
    assert parent.oldest() == ((1, 2), 5.0)
    worker.start_many({9: 7.0, 3: 8.0})
    assert parent.oldest() == ((9,), 7.0)


def test_more_running_tasks_than_can_be_noted_do_no_harm(board: Pair) -> None:
    worker, parent = board
    worker.start_many(dict.fromkeys(range(MOST_RUNNING + 100), 1.0))
    assert len(parent.running()) == MOST_RUNNING
    worker.add_number(1, 0.1, 5)
    assert last_of(parent).task_ids == [1]


def test_a_worker_that_never_stands_still_is_not_waited_for(board: Pair) -> None:
    worker, parent = board
    readings = iter(range(10**6))
    parent._read_running = lambda: {next(readings): 1.0}  # type: ignore[method-assign]
    worker.start(1, 1.0)
    assert len(parent.running()) == 1


def test_what_the_last_result_was_the_next_ones_are_expected_to_be(board: Pair) -> None:
    worker, _ = board
    worker.add(1, 0.1, VALUE, pickle.dumps("a text among a million numbers"))
    worker.add_number(2, 0.1, 2)
    frame_of(worker)
    worker.sent()
    worker.clear()
    assert worker.plain is int
    worker.add_number(3, 0.1, 2.5)
    _, answered = frame_of(worker)
    assert answered.values == [2.5]
    worker.sent()
    worker.clear()
    assert worker.plain is float
    worker.add(4, 0.1, VALUE, pickle.dumps("text"))
    frame_of(worker)
    worker.sent()
    worker.clear()
    assert worker.plain not in (int, float, str)
