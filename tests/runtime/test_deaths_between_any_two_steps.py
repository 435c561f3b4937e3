"""A worker's threads, switched between any two opcodes, and killed there: each result is told once, and told right.

The real TaskRunner, Outbox and Board, on a board of a few rows; one thread runs at a time, and a die decides after each
opcode who goes on. In a sample of these moments we do what the parent does when the worker is dead: take the frames
that have arrived whole, and read the rest from the board.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from gpu_dispatch.backends.contract import TasksAnswered
from gpu_dispatch.backends.opening import open_last_rows, open_rows
from gpu_dispatch.runtime import outbox as outbox_module
from gpu_dispatch.runtime import runner as runner_module
from gpu_dispatch.runtime.outbox import Outbox
from gpu_dispatch.runtime.runner import TaskRunner
from gpu_dispatch.transport import board as board_module
from gpu_dispatch.transport.board import Board, BoardReader, create_board_file
from gpu_dispatch.transport.codec import Packer
from gpu_dispatch.transport.rows import ROW_BYTES, read_frame

PATIENCE_S = 60.0
ROWS, DATA_BYTES = 8, 256
WATCHED = tuple(module.__file__ for module in (runner_module, outbox_module, board_module))
NO_ARENA: Any = None
VALUES: dict[str, Callable[[int], Any]] = {
    "int": lambda i: i,
    "float": lambda i: i + 0.5,
    "bool": lambda i: i % 2 == 0,
    "text": lambda i: f"text {i}",
    "more than the board holds": lambda i: "x" * 400 + str(i),
    "more than 64 bits": lambda i: 2**80 + i,
    "nothing": lambda i: None,
}
MIXTURES = [
    ["int"],
    ["float"],
    ["int", "float"],
    ["int"] * 8 + ["error"],
    ["int"] * 5 + ["more than 64 bits", "text"],
    ["text"],
    ["int"] * 3 + ["more than the board holds"],
    [*VALUES, "error"],
]


class Stage:
    """Lets one of the threads run at a time, and changes which at random."""

    def __init__(self, dice: random.Random, parts: list[Callable[[], None]]) -> None:
        self._dice = dice
        self._restless = dice.choice([0.02, 0.1, 0.3])
        self._cues = [threading.Semaphore(0) for _ in parts]
        self._on = set(range(len(parts)))
        self._me = threading.local()
        self._parts = parts
        self.is_over = False  # the first part, which is the main thread's, has ended
        self.errors: list[BaseException] = []
        self.look: Callable[[], None] = lambda: None

    def play(self) -> None:
        threads = [threading.Thread(target=self._enter, args=(part,)) for part in range(len(self._parts))]
        for thread in threads:
            thread.start()
        self._cues[0].release()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "the threads wait for each other"

    def _enter(self, part: int) -> None:
        self._me.part = part
        self._cues[part].acquire()
        sys.settrace(self._trace)
        try:
            self._parts[part]()
        except BaseException as error:
            self.errors.append(error)
        finally:
            sys.settrace(None)
            self.is_over = self.is_over or part == 0
            self._on.discard(part)
            if self._on:
                self._cues[self._dice.choice(sorted(self._on))].release()

    def switch(self) -> None:
        others = sorted(self._on - {self._me.part})
        if others:
            self._cues[self._dice.choice(others)].release()
            self._cues[self._me.part].acquire()

    def _trace(self, frame: FrameType, _event: str, _arg: object) -> Any:
        if frame.f_code.co_filename not in WATCHED:
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, _frame: FrameType, event: str, _arg: object) -> Any:
        if event == "opcode":
            if self._dice.random() < 0.05:
                self.look()
            if self._dice.random() < self._restless:
                self.switch()
        return self._step


class StageLock:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._is_taken = False

    def acquire(self, blocking: bool = True) -> bool:
        while self._is_taken:
            if not blocking:
                return False
            self._stage.switch()
        self._is_taken = True
        return True

    def release(self) -> None:
        self._is_taken = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Worker:
    task_id: int | None = None

    def process(self, item: tuple[int, str]) -> Any:
        task_id, kind = item
        if kind == "error":
            raise ValueError(f"task {task_id}")
        return VALUES[kind](task_id)


class Mail:
    """Some of it is late now and then."""

    finishing = False

    def __init__(self, items: list[tuple[int, str]], dice: random.Random) -> None:
        self._left = list(items)
        self._dice = dice
        self.begun: list[int] = []

    def take(self) -> tuple[int, tuple[int, str]]:
        if not self._left or self._dice.random() < 0.03:
            raise IndexError
        item = self._left.pop(0)
        self.begun.append(item[0])
        return item[0], item

    def open(self, item: Any) -> Any:
        return item

    def wait(self) -> None:
        self.finishing = not self._left


class Parent:
    """What it would know if the worker died now."""

    def __init__(self, board_fd: int, mail: Mail, kinds: list[str]) -> None:
        self._board_fd = board_fd
        self._mail = mail
        self._kinds = kinds
        self.frames: list[bytes] = []
        self.wrong: list[AssertionError] = []

    def look(self) -> None:
        """Keeps what is wrong for later: raised here, it would be taken for the failure of a task."""
        tracing = sys.gettrace()
        sys.settrace(None)
        try:
            self.told()
        except AssertionError as error:
            self.wrong.append(error)
        sys.settrace(tracing)

    def told(self) -> set[int]:
        """The tasks that it would know the outcome of."""
        reader = BoardReader(self._board_fd)
        told: set[int] = set()
        for frame in self.frames:
            first, rows = read_frame(memoryview(frame))
            reader.note_received(first, len(rows.ids))
            self._hear(open_rows(rows, NO_ARENA, 0), told)
        rows_left = reader.last_rows()
        if rows_left is not None:
            self._hear(open_last_rows(rows_left, NO_ARENA), told)
        lost = set(self._mail.begun[:-1]) - told - set(reader.running())
        reader.close()
        assert not lost, f"nobody knows of {lost}"
        return told

    def _hear(self, answered: TasksAnswered, told: set[int]) -> None:
        outcomes = dict(zip(answered.task_ids, answered.values, strict=True))
        failed = {task_id: failure.text for task_id, _, failure in answered.failures}
        twice = told & (outcomes.keys() | failed.keys())
        assert not twice, f"{twice} were told twice"
        for task_id, value in outcomes.items():
            right = VALUES[self._kinds[task_id]](task_id)
            assert (type(value), value) == (type(right), right)
        for task_id, text in failed.items():
            assert self._kinds[task_id] == "error"
            assert f"ValueError: task {task_id}" in text
        told |= outcomes.keys() | failed.keys()


@pytest.fixture
def small_board(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, Board]]:
    monkeypatch.setattr(board_module, "DATA_BYTES", DATA_BYTES)
    fd = create_board_file()
    board = Board(fd)
    board.rows = board.rows[: ROWS * ROW_BYTES]
    yield fd, board
    board.close()
    os.close(fd)


@pytest.mark.parametrize("seed", range(24))
def test_each_result_is_told_once_whenever_the_worker_dies(
    seed: int, small_board: tuple[int, Board], monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(seed)
    kinds = dice.choices(MIXTURES[seed % len(MIXTURES)], k=dice.randint(10, 40))
    mail = Mail(list(enumerate(kinds)), dice)
    board_fd, board = small_board
    parent = Parent(board_fd, mail, kinds)
    asked = [False]

    def flush_when_asked() -> None:
        while not stage.is_over:
            if asked[0]:
                asked[0] = False
                outbox.flush_beside()
            stage.switch()

    def recall_now_and_then() -> None:
        while not stage.is_over:
            if dice.random() < 0.02:
                outbox.flush_beside()
            stage.switch()

    class Channel:
        def send(self, message: object) -> None:
            pass

        def send_frame(self, kind: int, *parts: Any) -> None:
            for _ in range(3):  # a part of it is out
                stage.switch()
                parent.look()
            parent.frames.append(b"".join(map(bytes, parts)))
            parent.look()

    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            self.now += dice.choice([0.0, 1e-6, 0.001, 0.006, 0.030])
            return self.now

    clock = Clock()
    monkeypatch.setattr(outbox_module, "time", clock)
    monkeypatch.setattr(runner_module, "time", clock)
    outbox = Outbox(Channel(), board, Packer(None))
    worker: Any = Worker()
    runner = TaskRunner(worker, mail, outbox, board, None, mail.wait, (lambda _: None) if seed % 5 == 0 else None)  # type: ignore[arg-type]
    stage = Stage(dice, [lambda: runner.run() and None, flush_when_asked, recall_now_and_then])
    stage.look = parent.look
    outbox._lock = StageLock(stage)  # type: ignore[assignment]
    if seed % 4:  # else there was no thread to be had, and the runner flushes by itself
        outbox.flush_soon = lambda: asked.__setitem__(0, True)

    stage.play()

    for error in (*parent.wrong, *stage.errors):
        raise error
    assert parent.told() == set(range(len(kinds)))
    assert sum(len(read_frame(memoryview(frame))[1].ids) for frame in parent.frames) == len(kinds)
