"""Very large buffers are copied by two threads: whole, whatever becomes of the second, and never behind one's back."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from gpu_dispatch.transport import copying
from gpu_dispatch.transport.arena import ArenaReader, ArenaWriter, create_arena_file

PATTERN = os.urandom(1 << 16)


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "WORTH_HELP_BYTES", 1000)
    monkeypatch.setattr(copying, "_cores", lambda: 2)


def copy_of(source: bytes | bytearray) -> bytes:
    target = bytearray(len(source))
    copying.copy(memoryview(target), memoryview(source))
    return bytes(target)


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 4096, 65_535, 65_536])
@pytest.mark.parametrize("kind", [bytes, bytearray], ids=["read-only", "writable"])
def test_what_arrives_is_what_was_there(size: int, kind: Callable[[bytes], Any]) -> None:
    assert copy_of(kind(PATTERN[:size])) == PATTERN[:size]


def test_both_threads_copy_when_both_can(monkeypatch: pytest.MonkeyPatch) -> None:
    both_are_here = threading.Barrier(2)
    memmove = ctypes.memmove

    def copy_when_both_are_here(to: int, of: int, size: int) -> None:
        both_are_here.wait(10)
        memmove(to, of, size)

    monkeypatch.setattr(ctypes, "memmove", copy_when_both_are_here)
    assert copy_of(bytearray(PATTERN)) == PATTERN


def no_thread(function: Callable[..., None], values: tuple[Any, ...]) -> None:
    raise RuntimeError("can't start new thread")


def no_core(function: Callable[..., None], values: tuple[Any, ...]) -> None:
    """Started, and never run."""


def at_once(function: Callable[..., None], values: tuple[Any, ...]) -> None:
    """The helper is done with everything before the other has begun."""
    function(*values)


@pytest.mark.parametrize("start", [no_thread, no_core, at_once])
def test_a_helper_that_is_of_no_use_is_not_waited_for(
    start: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "start_new_thread", start)
    assert copy_of(bytearray(PATTERN)) == PATTERN


def test_nothing_is_written_any_more_when_the_copy_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    caller, helper_has_begun = threading.get_ident(), threading.Event()
    ended: list[bool] = []

    def interrupted_here(to: int, of: int, size: int) -> None:
        if threading.get_ident() == caller:
            assert helper_has_begun.wait(10)
            raise KeyboardInterrupt
        helper_has_begun.set()
        time.sleep(0.1)
        ended.append(True)

    monkeypatch.setattr(ctypes, "memmove", interrupted_here)
    with pytest.raises(KeyboardInterrupt):
        copy_of(bytearray(PATTERN))

    assert ended


def test_an_arena_closes_while_a_helper_that_came_too_late_still_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[Any] = []
    monkeypatch.setattr(copying, "start_new_thread", lambda function, values: late.append((function, values)))
    fd = create_arena_file(1 << 20)
    writer, reader = ArenaWriter(fd), ArenaReader(fd)
    os.close(fd)
    ref = writer.place(memoryview(bytearray(PATTERN)))
    assert ref is not None

    writer.close()

    function, values = late.pop()
    function(*values)
    assert bytes(reader.view(ref)) == PATTERN
    reader.close()
