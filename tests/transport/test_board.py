"""What a worker has finished survives its death at any instant, and is told once."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_dispatch.backends.opening import open_frame, open_records
from gpu_dispatch.transport.arena import ArenaReader, ArenaWriter
from gpu_dispatch.transport.board import (
    COUNT,
    FAILURE,
    FLUSH,
    LARGE,
    MOST_RUNNING,
    PAGE_AT,
    PAGE_BYTES,
    RECORD,
    RUNNING,
    VALUE,
    Board,
    BoardReader,
    create_board_file,
    read_records,
)
from gpu_dispatch.transport.codec import Large, Packer, large_to_bytes
from gpu_dispatch.transport.frames import BrokenFrame, FrameKind


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


def frame_of(board: Board) -> tuple[int, int, memoryview]:
    """The frame as it arrives: (kind, flush number, body)."""
    kind, *parts = board.frame()
    data = memoryview(b"".join(bytes(part) for part in parts))
    return kind, *FLUSH.unpack_from(data), data[FLUSH.size :]


def test_large_values_that_were_not_sent_are_read_from_a_dead_worker(board: Pair, arena: Arena) -> None:
    worker, parent = board
    writer, reader = arena
    packed = Packer(writer).pack(b"x" * 100_000)
    assert isinstance(packed, Large)
    worker.add(1, 0.5, LARGE, large_to_bytes(packed))
    worker.add(2, 0.5, LARGE, pickle.dumps("no such place"))

    answered = open_records(parent.last_records(), reader)

    assert (answered.task_ids, answered.values) == ([1], [b"x" * 100_000])
    assert 100_000 < answered.size < 101_000
    assert [task_id for task_id, _, _ in answered.failures] == [2]


def test_records_that_were_not_sent_are_read_from_a_dead_worker(board: Pair) -> None:
    worker, parent = board
    worker.add_number(1, 0.5, -7)
    worker.add_number(2, 0.5, 2.5)
    worker.add(3, 0.25, VALUE, pickle.dumps({"a": 1}))
    worker.add(4, 0.25, FAILURE, b"failure")
    read = [(task_id, busy_s, opened(data)) for task_id, busy_s, _, data in parent.last_records()]
    assert read == [(1, 0.5, -7), (2, 0.5, 2.5), (3, 0.25, pickle.dumps({"a": 1})), (4, 0.25, b"failure")]


def opened(data: object) -> object:
    return bytes(data) if isinstance(data, memoryview) else data


def test_a_death_between_sending_and_noting_it_tells_nothing_twice(board: Pair) -> None:
    """The frame has arrived, and ``sent()`` was never reached."""
    worker, parent = board
    worker.add_number(1, 0.5, 7)
    _, flush, _ = frame_of(worker)
    parent.note_received(flush)
    assert parent.last_records() == []


def test_a_death_before_the_frame_was_out_loses_nothing(board: Pair) -> None:
    worker, parent = board
    worker.add_number(1, 0.5, 7)
    _, flush, _ = frame_of(worker)
    parent.note_received(flush)
    worker.sent()
    worker.add_number(2, 0.5, 8)
    frame_of(worker)  # made, and not sent
    assert [record[0] for record in parent.last_records()] == [2]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["number", "value", "send", "die unsent"]), max_size=60))
def test_whenever_the_worker_dies_each_result_is_told_once(steps: list[str]) -> None:
    fd = create_board_file()
    worker, parent = Board(fd), BoardReader(fd)
    os.close(fd)
    told: list[int] = []
    finished = 0
    for step in steps:
        if step == "number":
            assert worker.add_number(finished, 0.1, finished)
            finished += 1
        elif step == "value":
            assert worker.add(finished, 0.1, VALUE, pickle.dumps(finished))
            finished += 1
        elif worker.has_records:
            kind, flush, body = frame_of(worker)
            if step == "send":
                told += open_frame(kind, body).task_ids
                parent.note_received(flush)
                worker.sent()
    told += open_records(parent.last_records()).task_ids
    assert told == list(range(finished))
    parent.close()


def test_a_page_of_numbers_is_sent_in_bulk_and_opens_to_the_same(board: Pair) -> None:
    worker, _ = board
    numbers = [3, -4, 2.5, float("inf"), 2**62]
    for task_id, number in enumerate(numbers):
        assert worker.add_number(task_id, 0.1, number)
    kind, _, body = frame_of(worker)
    assert kind == FrameKind.ATOMS
    assert open_frame(kind, body).values == numbers


def test_an_int_of_more_than_64_bits_and_a_full_page_are_refused(board: Pair) -> None:
    worker, parent = board
    assert not worker.add_number(1, 0.1, 2**63)
    assert not worker.add(1, 0.1, VALUE, bytes(PAGE_BYTES))
    count = 0
    while worker.add_number(count, 0.1, count):
        count += 1
    assert count == PAGE_BYTES // (RECORD.size + 8)
    assert len(parent.last_records()) == count
    worker.sent()
    assert worker.add_number(1, 0.1, 1)


def test_a_record_larger_than_the_page_is_a_frame_by_itself(board: Pair) -> None:
    worker, _ = board
    data = pickle.dumps("x" * 100_000)
    kind, head, body = worker.frame_of(5, 0.5, VALUE, data)
    answered = open_frame(kind, memoryview(head + body)[FLUSH.size :])
    assert (answered.task_ids, answered.values) == ([5], ["x" * 100_000])


def test_a_result_that_will_not_open_is_its_own_tasks_failure(board: Pair) -> None:
    worker, parent = board
    worker.add(1, 0.1, VALUE, pickle.dumps("good"))
    worker.add(2, 0.1, VALUE, b"not a pickle")
    worker.add(3, 0.1, VALUE, pickle.dumps("good too"))
    answered = open_records(parent.last_records())
    assert answered.task_ids == [1, 3]
    assert [(task_id, failure.kind) for task_id, _, failure in answered.failures] == [(2, "transport")]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_garbage_is_refused_and_nothing_else(data: bytes) -> None:
    for kind in (FrameKind.RECORDS, FrameKind.ATOMS):
        try:
            answered = open_frame(kind, memoryview(data))
        except BrokenFrame:
            continue
        assert len(answered.task_ids) == len(answered.values)


def test_a_page_that_a_wild_pointer_destroyed_gives_what_can_still_be_read(board: Pair) -> None:
    worker, parent = board
    for task_id in range(100):
        worker.add_number(task_id, 0.1, task_id)
    chance = random.Random(3)
    for _ in range(200):
        at = PAGE_AT + chance.randrange(40 * (RECORD.size + 8), PAGE_BYTES)
        parent._map[at] = chance.randrange(256)
        open_records(parent.last_records())  # whatever it finds there, it does not raise
    assert [record[0] for record in parent.last_records()][:40] == list(range(40))
    parent._words[COUNT] = 2**63
    parent._words[RUNNING] = 2**64 - 1
    parent.last_records()
    assert len(parent.running()) <= MOST_RUNNING


def test_a_record_cut_short_is_refused() -> None:
    whole = RECORD.pack(VALUE, 5, 1, 0.1) + b"12345"
    assert len(read_records(memoryview(whole))) == 1
    for length in range(1, len(whole)):
        with pytest.raises(BrokenFrame):
            read_records(memoryview(whole[:length]))


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
    assert [record[0] for record in parent.last_records()] == [1]


def test_a_worker_that_never_stands_still_is_not_waited_for(board: Pair) -> None:
    worker, parent = board
    readings = iter(range(10**6))
    parent._read_running = lambda: {next(readings): 1.0}  # type: ignore[method-assign]
    worker.start(1, 1.0)
    assert len(parent.running()) == 1
