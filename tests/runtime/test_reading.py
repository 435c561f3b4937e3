"""Two threads share the reading of one channel: nothing is lost, nobody waits for mail that has arrived."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from gpu_dispatch.runtime.mailbox import Mailbox
from gpu_dispatch.runtime.outbox import Outbox
from gpu_dispatch.runtime.reading import LOOK_S, LOOKS_UNTIL_ASLEEP, Reader
from gpu_dispatch.transport.arena import ArenaReader, create_arena_file
from gpu_dispatch.transport.board import Board, create_board_file
from gpu_dispatch.transport.channel import Channel, channel_pair
from gpu_dispatch.transport.codec import Packer, pack_together
from gpu_dispatch.transport.pickling import loads
from gpu_dispatch.transport.worker_channel import WorkerChannel
from gpu_dispatch.wire import Finish, GivenBack, RecallTasks, RunTasks

PATIENCE_S = 20.0


class Desk(NamedTuple):
    """A worker's mailbox with its reader, the parent's channel to it, and which task the main thread is in."""

    reader: Reader
    mailbox: Mailbox
    parent: Channel
    now: dict[str, int | None]

    def send(self, *task_ids: int) -> None:
        data = pack_together(list(task_ids))
        self.parent.send(RunTasks(tuple(task_ids), ("together", data)))

    def hear(self) -> list[Any]:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            frames, _ = self.parent.receive()
            if frames:
                return [loads(body) for _, body in frames]
            time.sleep(0.0005)
        raise AssertionError("the worker said nothing")


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr("gpu_dispatch.runtime.lifeline.end_group", lambda: None)  # it would end this process
    before = set(threading.enumerate())
    ours, theirs = channel_pair()
    board_fd, arena_fd = create_board_file(), create_arena_file(1 << 16)
    board, arena = Board(board_fd), ArenaReader(arena_fd)
    mailbox = Mailbox(arena, in_batches=False)
    channel = WorkerChannel(theirs.fileno())
    now: dict[str, int | None] = {"task": None}
    reader = Reader(channel, mailbox, Outbox(channel, board, Packer(None)), lambda: now["task"])
    parent = Channel(ours)
    try:
        yield Desk(reader, mailbox, parent, now)
    finally:
        parent.close()
        helpers = set(threading.enumerate()) - before
        for thread in helpers:
            thread.join(PATIENCE_S)
        theirs.close()
        board.close()
        arena.close()
        for fd in (board_fd, arena_fd):
            os.close(fd)
    assert not any(thread.is_alive() for thread in helpers), "the helper does not notice that the parent is gone"


def in_time(call: Callable[[], Any]) -> None:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "it waits for mail that has arrived"


def test_the_main_thread_reads_its_mail_itself(desk: Desk) -> None:
    desk.send(1, 2)
    in_time(desk.reader.read_until_mail)  # there is no helper yet
    assert [desk.mailbox.take()[0] for _ in range(2)] == [1, 2]  # type: ignore[index]


def test_while_the_main_thread_is_in_a_task_the_helper_answers(desk: Desk) -> None:
    desk.send(1, 2, 3)
    in_time(desk.reader.read_until_mail)
    desk.reader.start(beside_main=True)
    desk.mailbox.take()
    desk.now["task"] = 1
    desk.parent.send(RecallTasks(5))
    assert desk.hear() == [GivenBack((2, 3))]
    time.sleep(5 * LOOK_S)  # now it waits for mail, because the task is long
    desk.parent.send(RecallTasks(5))
    assert desk.hear() == [GivenBack(())]
    desk.now["task"] = None
    desk.send(7)
    in_time(desk.reader.read_until_mail)
    assert desk.mailbox.take() == (7, 7)


def test_between_short_tasks_a_recall_is_answered_as_well(desk: Desk) -> None:
    """The main thread has enough to do, and does not look at the channel."""
    desk.send(*range(100))
    in_time(desk.reader.read_until_mail)
    desk.reader.start(beside_main=True)
    desk.parent.send(RecallTasks(1))
    asked = time.monotonic()
    answered = threading.Event()

    def run_short_tasks() -> None:
        number = 0
        while not answered.is_set():
            number += 1
            desk.now["task"] = number
            time.sleep(0.0002)

    thread = threading.Thread(target=run_short_tasks)
    thread.start()
    heard = desk.hear()
    answered.set()
    thread.join()
    assert heard == [GivenBack((99,))]
    assert time.monotonic() - asked < 1


def test_a_helper_that_sleeps_is_woken_by_mail(desk: Desk) -> None:
    desk.reader.start(beside_main=True)
    for number in range(3):
        waiting = threading.Thread(target=desk.reader.read_until_mail, daemon=True)
        waiting.start()
        time.sleep(LOOK_S * (LOOKS_UNTIL_ASLEEP + 10))
        assert desk.reader._asleep, "an idle worker keeps waking up"
        desk.send(number)
        waiting.join(PATIENCE_S)
        assert not waiting.is_alive()
        desk.now["task"] = number
        desk.parent.send(RecallTasks(5))
        assert desk.hear() == [GivenBack((number,))]
        desk.now["task"] = None


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_whoever_reads(desk: Desk, seed: int) -> None:
    dice = random.Random(seed)
    count = 3_000
    given_back: list[int] = []
    run: list[int] = []

    def be_the_parent() -> None:
        sent = 0
        while sent < count:
            size = min(count - sent, dice.choice((1, 1, 2, 40, 300)))
            desk.send(*range(sent, sent + size))
            sent += size
            if dice.random() < 0.2:
                desk.parent.send(RecallTasks(dice.choice((0, 1, 10))))
            if dice.random() < 0.3:
                time.sleep(dice.choice((0.0, 0.0005, LOOK_S, 0.02)))
            while desk.parent.has_backlog:
                desk.parent.flush()
        desk.parent.send(Finish())

    def be_the_main_thread() -> None:
        while True:
            try:
                task_id, _ = desk.mailbox.take()  # type: ignore[misc]
            except IndexError:
                desk.now["task"] = None
                desk.reader.read_until_mail()
                if desk.mailbox.finishing and not desk.mailbox._tasks:
                    return
                continue
            desk.now["task"] = task_id
            if dice.random() < 0.01:
                time.sleep(dice.choice((0.001, LOOK_S, 3 * LOOK_S)))
            run.append(task_id)

    desk.reader.start(beside_main=True)
    parent = threading.Thread(target=be_the_parent, daemon=True)
    parent.start()
    in_time(be_the_main_thread)
    parent.join(PATIENCE_S)
    frames = 1
    while frames:
        time.sleep(0.05)
        received, _ = desk.parent.receive()
        frames = len(received)
        for _, body in received:
            given_back += loads(body).task_ids
    assert sorted(run + given_back) == list(range(count))


def test_a_frame_that_the_pipe_takes_in_pieces_arrives_whole() -> None:
    ours, theirs = channel_pair()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    parts = [bytes([i]) * size for i, size in enumerate((1, 100_000, 0, 7, 300_000))]
    writer = threading.Thread(target=lambda: WorkerChannel(theirs.fileno()).send_frame(2, *parts))
    writer.start()
    parent, frames = Channel(ours), []
    deadline = time.monotonic() + PATIENCE_S
    while not frames and time.monotonic() < deadline:
        frames, _ = parent.receive()
    writer.join(PATIENCE_S)
    ((kind, body),) = frames
    assert (kind, bytes(body)) == (2, b"".join(parts))
    parent.close()
    theirs.close()
