"""Opening what workers send: messages and rows to values. What will not open is one task's failure."""

from __future__ import annotations

from gpu_dispatch.backends.contract import TasksAnswered
from gpu_dispatch.transport.arena import ArenaReader
from gpu_dispatch.transport.codec import packed_size, unpack
from gpu_dispatch.transport.explain import safe_str
from gpu_dispatch.transport.frames import BrokenFrame
from gpu_dispatch.transport.pickling import loads
from gpu_dispatch.transport.rows import FAILURE, FLOAT, INT, VALUE, Rows
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


def open_rows(rows: Rows, size: int = 0) -> TasksAnswered:
    """Each pickle by itself: one that will not load is that task's failure, nobody else's. Raises BrokenFrame."""
    tag = rows.only_tag
    if tag == INT:
        return TasksAnswered(rows.ids, rows.ints(), rows.busy_s, [], size)
    if tag == FLOAT:
        return TasksAnswered(rows.ids, rows.floats(), rows.busy_s, [], size)
    if tag == VALUE:
        try:
            return TasksAnswered(rows.ids, list(map(loads, rows.pieces())), rows.busy_s, [], size)
        except BrokenFrame:
            raise
        except BaseException:
            pass  # one of them will not load: see below which
    answered = TasksAnswered([], [], [], [], size)
    _open_one_by_one(rows, answered)
    return answered


def open_last_rows(rows: Rows) -> TasksAnswered:
    """Of a dead worker, which may have destroyed them: as many as make sense."""
    answered = TasksAnswered([], [], [], [])
    try:
        _open_one_by_one(rows, answered)
    except BrokenFrame:
        pass
    return answered


def _open_one_by_one(rows: Rows, answered: TasksAnswered) -> None:
    floats, size, start = rows.floats(), len(rows.data), 0
    for i, (task_id, busy_s, tag, word) in enumerate(zip(rows.ids, rows.busy_s, rows.tags, rows.ints(), strict=True)):
        if tag == INT:
            value: Any = word
        elif tag == FLOAT:
            value = floats[i]
        elif tag > FAILURE or not start <= word <= size:
            raise BrokenFrame(f"a result of kind {tag} was announced, up to {word} of {size} bytes")
        else:
            piece, start = rows.data[start:word], word
            try:
                value = loads(piece)
            except BaseException as error:
                answered.failures.append((task_id, busy_s, _will_not_open(error)))
                continue
            if tag == FAILURE:
                answered.failures.append((task_id, busy_s, value))
                continue
        answered.task_ids.append(task_id)
        answered.values.append(value)
        answered.busy_s.append(busy_s)


def open_large(message: LargeResult, arena: ArenaReader) -> TasksAnswered:
    try:
        value = unpack(message.packed, arena)
    except BaseException as error:
        return TasksAnswered([], [], [], [(message.task_id, message.busy_s, _will_not_open(error))])
    return TasksAnswered([message.task_id], [value], [message.busy_s], [], packed_size(message.packed))


def _will_not_open(error: BaseException) -> Failure:
    text = f"the result does not unpickle in the parent. {type(error).__name__}: {safe_str(error)}"
    return Failure("transport", text)
