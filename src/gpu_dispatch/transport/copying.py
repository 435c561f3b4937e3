"""Copying into shared memory; what is very large, with the help of a second thread.

One core copies some 10 GB/s, two copy up to twice that, and 25 MB take longer than all else that is done for a task.
The helper lives for one copy: nothing is left to be stopped, or to be missing in a forked child.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread

WORTH_HELP_BYTES = 16 << 20
"""Below this, starting the thread costs as much as it saves."""


def copy(target: memoryview, source: memoryview) -> None:
    """Both are contiguous, of bytes, and of the same length."""
    # Of memory that is read-only (bytes), ctypes does not tell the address.
    if len(source) < WORTH_HELP_BYTES or source.readonly or _cores() < 2:
        target[:] = source
    else:
        _copy_with_help(target, source)


def _copy_with_help(target: memoryview, source: memoryview) -> None:
    from ctypes import addressof, c_char, memmove  # here: few processes need it, and it takes a while

    size = len(source)
    # Halves, and not smaller parts: after each, the interpreter's lock must be had again, from whoever has it then.
    half = (size + 1) // 2
    pinned = c_char.from_buffer(target), c_char.from_buffer(source)  # neither goes away while one of us is at work
    to, of = map(addressof, pinned)
    starts = iter((0, half))
    copied: list[int] = []
    helper_is_gone = allocate_lock()

    def take_halves() -> None:
        """Until none is left: when the helper gets no core in time, its half is done without it."""
        for start in starts:  # a step of this iterator is atomic: no half is taken twice
            memmove(to + start, of + start, min(half, size - start))  # without the interpreter's lock
            copied.append(start)

    def help_out(_pinned: object) -> None:
        try:
            take_halves()
        finally:
            helper_is_gone.release()

    helper_is_gone.acquire()
    try:
        start_new_thread(help_out, (pinned,))
    except RuntimeError:  # no threads left, or the interpreter is ending
        helper_is_gone.release()
    try:
        take_halves()
    finally:
        left = len(list(starts))  # some, when the handler of a signal raised: nobody shall take these any more
        if len(copied) + left < 2:
            helper_is_gone.acquire()  # it is at work. Otherwise it may not even have begun: do not wait for it


def _cores() -> int:
    """That this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # pragma: no cover -- not Linux
