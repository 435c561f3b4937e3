"""Opening what workers send: messages and rows to values. What will not open is one task's failure."""

from __future__ import annotations

from gpu_dispatch.backends.contract import TasksAnswered
from gpu_dispatch.light import replace
from gpu_dispatch.transport.arena import ArenaReader
from gpu_dispatch.transport.codec import large_from_bytes, unpack
from gpu_dispatch.transport.explain import safe_str
from gpu_dispatch.transport.frames import BrokenFrame
from gpu_dispatch.transport.pickling import loads
from gpu_dispatch.transport.rows import FAILURE, FLOAT, INT, LARGE, VALUE, Rows
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

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any

WORDS = (Ready, SetupRaised, CleanupRaised, TaskBegan, GivenBack, BatchSizeLearnt, Finished)
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


def take_rows(rows: Rows, arena: ArenaReader, size: int) -> TasksAnswered:
    """Pickles as they are. Numbers need no opening; what lies in the arena is opened at once, since it takes up room
    there. Raises BrokenFrame.

    ``size``: of the frame. What lies in the arena is added.
    """
    if rows.only_tag == VALUE:
        return TasksAnswered(rows.ids, list(rows.pieces()), rows.busy_s, [], size, opener=open_pickles)
    return open_rows(rows, arena, size)


def open_rows(rows: Rows, arena: ArenaReader, size: int) -> TasksAnswered:
    """The same with everything opened."""
    tag = rows.only_tag
    if tag == INT:
        return TasksAnswered(rows.ids, rows.ints(), rows.busy_s, [], size)
    if tag == FLOAT:
        return TasksAnswered(rows.ids, rows.floats(), rows.busy_s, [], size)
    if tag == VALUE:
        return open_pickles(rows.ids, list(rows.pieces()), rows.busy_s, size)
    some = TasksAnswered([], [], [], [])
    size += _open_one_by_one(rows, arena, some)
    return TasksAnswered(some.task_ids, some.values, some.busy_s, some.failures, size)


def open_pickles(task_ids: list[int], pickles: list[memoryview], busy_s: list[float], size: int) -> TasksAnswered:
    """Each pickle by itself: one that will not open is that task's failure, nobody else's. Hot.

    On the main thread an error may also be a signal handler's, which happens to run now. A pickle's own is one that it
    makes twice; any other is a stray. An interrupt is raised at once.
    """
    values: list[Any] = []
    once: BaseException | None = None  # the error that the next pickle has made once
    stray: BaseException | None = None
    try:
        values.extend(map(loads, pickles))
        return TasksAnswered(task_ids, values, busy_s, [], size)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        once = error
    opened = len(values)
    some = TasksAnswered(task_ids[:opened], values, busy_s[:opened], [], size)
    for task_id, pickle, seconds in zip(task_ids[opened:], pickles[opened:], busy_s[opened:], strict=True):
        value = None
        if once is None:
            value, once = _open(pickle)
        if once is not None:
            value, twice = _open(pickle)
            if twice is not None:
                some.failures.append((task_id, seconds, _will_not_open(twice)))
                once = twice = None  # errors know this frame: they would keep it, and it them
                continue
            stray, once = once, None
        _add(some, task_id, value, seconds)
    return some if stray is None else replace(some, stray=stray)


def _open(pickle: memoryview) -> tuple[Any, BaseException | None]:
    try:
        return loads(pickle), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return None, error


def open_last_rows(rows: Rows, arena: ArenaReader) -> TasksAnswered:
    """Of a dead worker, which may have destroyed them: as many as make sense."""
    some = TasksAnswered([], [], [], [])
    try:
        _open_one_by_one(rows, arena, some)
    except BrokenFrame:
        pass
    return some


def _open_one_by_one(rows: Rows, arena: ArenaReader, some: TasksAnswered) -> int:
    """Adds them to ``some``; returns how many bytes of them lie in the arena."""
    floats, size, start, in_arena = rows.floats(), len(rows.data), 0, 0
    for i, (task_id, busy_s, tag, word) in enumerate(zip(rows.ids, rows.busy_s, rows.tags, rows.ints(), strict=True)):
        if tag == INT:
            value: Any = word
        elif tag == FLOAT:
            value = floats[i]
        elif not start <= (end := word - rows.data_start) <= size or tag > LARGE:
            raise BrokenFrame(f"a result of kind {tag} was announced, up to {end} of {size} bytes")
        else:
            piece, start = rows.data[start:end], end
            try:
                if tag == LARGE:
                    large = large_from_bytes(piece)
                    value = unpack(large, arena)
                    in_arena += large.size
                else:
                    value = loads(piece)
            except BaseException as error:
                some.failures.append((task_id, busy_s, _will_not_open(error)))
                continue
            if tag == FAILURE:
                some.failures.append((task_id, busy_s, value))
                continue
        _add(some, task_id, value, busy_s)
    return in_arena


def _add(some: TasksAnswered, task_id: int, value: Any, busy_s: float) -> None:
    some.task_ids.append(task_id)
    some.values.append(value)
    some.busy_s.append(busy_s)


def _will_not_open(error: BaseException) -> Failure:
    text = f"the result does not unpickle in the parent. {type(error).__name__}: {safe_str(error)}"
    return Failure("transport", text)
