"""Opening what workers send: frames and records to values. What will not open is one task's failure."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from gpu_dispatch.backends.contract import TasksAnswered
from gpu_dispatch.transport.arena import ArenaReader
from gpu_dispatch.transport.board import FAILURE, LARGE, VALUE, read_records
from gpu_dispatch.transport.codec import large_from_bytes, unpack
from gpu_dispatch.transport.explain import safe_str
from gpu_dispatch.transport.frames import BrokenFrame, FrameKind
from gpu_dispatch.wire import (
    BatchSizeLearnt,
    CleanupRaised,
    Failure,
    Finished,
    GivenBack,
    Ready,
    SetupRaised,
    TaskBegan,
)

if TYPE_CHECKING:
    from gpu_dispatch.transport.board import Record


def open_frame(kind: int, body: memoryview, arena: ArenaReader | None = None) -> TasksAnswered:
    """Raises BrokenFrame when it is none of ours."""
    if kind == FrameKind.ATOMS:
        try:
            ids, busy, values = pickle.loads(body)
            whole = len(ids) == len(busy) == len(values) > 0
        except BaseException as error:
            raise BrokenFrame(f"a frame of numbers does not open: {safe_str(error)}") from None
        if not whole:
            raise BrokenFrame("a frame of numbers with a part missing")
        return TasksAnswered(ids, values, busy, [], len(body))
    return open_records(read_records(body), arena, len(body))


WORDS = (Ready, SetupRaised, CleanupRaised, TaskBegan, GivenBack, BatchSizeLearnt, Finished)
"""What a worker may say."""


def open_message(body: memoryview) -> Any:
    """Raises BrokenFrame when it is none of ours."""
    try:
        message = pickle.loads(body)
    except BaseException as error:
        raise BrokenFrame(f"a message does not open: {safe_str(error)}") from None
    if not isinstance(message, WORDS):
        raise BrokenFrame(f"{type(message).__name__} is not a message")
    return message


def open_records(records: list[Record], arena: ArenaReader | None = None, size: int = 0) -> TasksAnswered:
    """Unpickle each by itself: one that will not load is that task's failure, nobody else's."""
    task_ids: list[int] = []
    values: list[Any] = []
    busy: list[float] = []
    failures: list[tuple[int, float, Failure]] = []
    for task_id, busy_s, tag, data in records:
        try:
            if tag == LARGE:
                large = large_from_bytes(data)
                value = unpack(large, arena)
                size += large.size
            else:
                value = pickle.loads(data) if tag in (VALUE, FAILURE) else data
        except BaseException as error:
            failures.append((task_id, busy_s, _will_not_open(error)))
            continue
        if tag == FAILURE:
            failures.append((task_id, busy_s, value))
        else:
            task_ids.append(task_id)
            values.append(value)
            busy.append(busy_s)
    return TasksAnswered(task_ids, values, busy, failures, size)


def _will_not_open(error: BaseException) -> Failure:
    text = f"the result does not unpickle in the parent. {type(error).__name__}: {safe_str(error)}"
    return Failure("transport", text)
