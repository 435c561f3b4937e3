"""Opening what workers send: frames and records to values. What will not open is one task's failure."""

from __future__ import annotations

from gpu_dispatch.backends.contract import TasksAnswered
from gpu_dispatch.transport.arena import ArenaReader
from gpu_dispatch.transport.board import FAILURE, VALUE, read_records
from gpu_dispatch.transport.codec import packed_size, unpack
from gpu_dispatch.transport.explain import safe_str
from gpu_dispatch.transport.frames import BrokenFrame, FrameKind
from gpu_dispatch.transport.pickling import loads
from gpu_dispatch.wire import (
    BatchSizeLearnt,
    CleanupRaised,
    Failure,
    Finished,
    GivenBack,
    LargeResult,
    Ready,
    SetupRaised,
    TaskBegan,
)

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any

    from gpu_dispatch.transport.board import Record


def open_frame(kind: int, body: memoryview) -> TasksAnswered:
    """Raises BrokenFrame when it is none of ours."""
    if kind == FrameKind.ATOMS:
        try:
            ids, busy, values = loads(body)
            whole = len(ids) == len(busy) == len(values) > 0
        except BaseException as error:
            raise BrokenFrame(f"a frame of numbers does not open: {safe_str(error)}") from None
        if not whole:
            raise BrokenFrame("a frame of numbers with a part missing")
        return TasksAnswered(ids, values, busy, [], len(body))
    return open_records(read_records(body), len(body))


WORDS = (Ready, SetupRaised, CleanupRaised, TaskBegan, GivenBack, BatchSizeLearnt, LargeResult, Finished)
"""What a worker may say."""


def open_message(body: memoryview) -> Any:
    """Raises BrokenFrame when it is none of ours."""
    try:
        message = loads(body)
    except BaseException as error:
        raise BrokenFrame(f"a message does not open: {safe_str(error)}") from None
    if not isinstance(message, WORDS):
        raise BrokenFrame(f"{type(message).__name__} is not a message")
    return message


def open_records(records: list[Record], size: int = 0) -> TasksAnswered:
    """Unpickle each by itself: one that will not load is that task's failure, nobody else's."""
    answered = TasksAnswered([], [], [], [], size)
    for task_id, busy_s, tag, data in records:
        try:
            value = loads(data) if tag in (VALUE, FAILURE) else data
        except BaseException as error:
            answered.failures.append((task_id, busy_s, _will_not_open(error)))
            continue
        if tag == FAILURE:
            answered.failures.append((task_id, busy_s, value))
        else:
            answered.task_ids.append(task_id)
            answered.values.append(value)
            answered.busy_s.append(busy_s)
    return answered


def open_large(message: LargeResult, arena: ArenaReader) -> TasksAnswered:
    try:
        value = unpack(message.packed, arena)
    except BaseException as error:
        return TasksAnswered([], [], [], [(message.task_id, message.busy_s, _will_not_open(error))])
    return TasksAnswered([message.task_id], [value], [message.busy_s], [], packed_size(message.packed))


def _will_not_open(error: BaseException) -> Failure:
    text = f"the result does not unpickle in the parent. {type(error).__name__}: {safe_str(error)}"
    return Failure("transport", text)
