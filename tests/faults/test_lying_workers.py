"""Workers that say what no worker should say: the run goes on without them."""

from __future__ import annotations

import os
import pickle
import struct
import time
from typing import Any

import pytest
from faulty_workers import write_to_the_channel
from plain_workers import Echo
from recording import Record, run

from gpu_dispatch.engine import notices as note
from gpu_dispatch.engine.run import Run
from gpu_dispatch.transport.arena import Ref
from gpu_dispatch.transport.codec import Large, large_to_bytes
from gpu_dispatch.transport.frames import FrameKind, header
from gpu_dispatch.transport.rows import HEAD, INT, LARGE, ROW, VALUE
from gpu_dispatch.wire import GivenBack, Ready


def framed(kind: int, body: bytes) -> bytes:
    return header(kind, len(body)) + body


def message(value: Any) -> bytes:
    return framed(FrameKind.MESSAGE, pickle.dumps(value))


def large_result(task_id: int, data: bytes) -> bytes:
    rows = HEAD.pack(1 << 40, 1, 0) + ROW.pack(task_id, 0.0, len(data)) + bytes((LARGE,))
    return framed(FrameKind.RESULTS, rows + data)


NOWHERE = large_to_bytes(Large(pickle.dumps(None), (Ref(5000, 1 << 60, 4096, 4096),)))


class Exits:
    """Runs code where it is unpickled: in the parent."""

    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit(5)",))


LIES: dict[str, bytes] = {
    "noise": b"\xff" * 64,
    "zeros": b"\0" * 64,
    "a message that is none": framed(FrameKind.MESSAGE, b"not a pickle"),
    "a message that exits where it is opened": message(Exits()),
    "a number": message(7),
    "a dict": message({"task_id": 1}),
    "a class that is not there": framed(FrameKind.MESSAGE, b"cno_such_module\nThing\n."),
    "results of noise": framed(FrameKind.RESULTS, b"\xff" * 80),
    "results without a head": framed(FrameKind.RESULTS, b"abc"),
    "no results": framed(FrameKind.RESULTS, HEAD.pack(0, 0, 0)),
    "fewer results than announced": framed(FrameKind.RESULTS, HEAD.pack(0, 3, 0) + ROW.pack(1, 0.0, 3) + bytes((INT,))),
    "a result of no kind": framed(FrameKind.RESULTS, HEAD.pack(0, 1, 0) + ROW.pack(1, 0.0, 3) + b"\x63"),
    "a result whose data is not there": framed(
        FrameKind.RESULTS, HEAD.pack(0, 1, 0) + ROW.pack(1, 0.0, 1 << 40) + bytes((VALUE,)) + b"abc"
    ),
    "ready once more": message(Ready(0.0, 1)),
    "tasks given back that it never had": message(GivenBack((100_000, -5))),
    "a result of a task that it never had": framed(
        FrameKind.RESULTS, HEAD.pack(1 << 40, 1, 0) + ROW.pack(100_000, 0.0, 3) + bytes((INT,))
    ),
    "a large result that is none": large_result(100_000, pickle.dumps(None)),
    "a large result that is nowhere": large_result(100_000, NOWHERE),
    "its own result, that is nowhere": large_result(2, NOWHERE),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_costs_at_most_the_task_of_the_liar(lie: str) -> None:
    record = run(Liar, [0, 1, LIES[lie], 3, 4, 5], suppress_worker_output=True)

    record.check(6)
    assert set(record.successes) >= {0, 1, 3, 4, 5}
    assert record.successes.get(2, "told the truth after all") == "told the truth after all"
    assert record.elapsed_s < 5


class Liar(Echo):
    def process(self, item: Any) -> Any:
        if isinstance(item, bytes):
            write_to_the_channel(item)
            return "told the truth after all"
        return item


def test_a_run_ends_though_its_last_notice_was_lost_with_an_interrupt(monkeypatch) -> None:
    """An interrupt may come between taking a notice from the queue and looking at it."""
    take, lost = Run._next_notice, []

    def interrupted(self: Run) -> note.Notice:
        notice = take(self)
        if isinstance(notice, note.Ended) and not lost:
            lost.append(notice)
            raise KeyboardInterrupt
        return notice

    monkeypatch.setattr(Run, "_next_notice", interrupted)
    record = Record()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(Echo, [1, 2, 3], record=record)

    assert len(lost) == 1
    assert time.monotonic() - started < 5
    assert record.exits == 1
    assert len(record.successes) == 3


def test_the_page_of_a_dead_worker_is_not_believed_blindly() -> None:
    """User code may have written over the shared page: what cannot be read is left out, the task is charged."""
    record = run(Scribbler, [0, 1, "scribble", 3, 4], suppress_worker_output=True)

    record.check(5)
    assert set(record.successes) >= {0, 1, 3, 4}
    assert 2 in record.errors


class Scribbler(Echo):
    def process(self, item: Any) -> Any:
        if item == "scribble":
            import gc
            import mmap

            for found in gc.get_objects():
                if type(found) is mmap.mmap and len(found) < 1 << 20:
                    found[-(1 << 15) :] = os.urandom(1 << 15)
                    found[24:32] = struct.pack("<Q", 1 << 40)  # how many records there are
            os._exit(1)
        return item
