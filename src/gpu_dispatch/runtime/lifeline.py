"""A worker does not outlive its parent, not even when the parent is killed by SIGKILL and user code holds the GIL.

Two independent ropes, both pulled by the kernel:
- the *lifeline*, a pipe whose other end only the parent holds. When the parent dies the pipe hangs up, and the kernel
  sends SIGKILL to the worker's whole process group (O_ASYNC with F_SETSIG): data-loader children go as well;
- PR_SET_PDEATHSIG, in case a child that the user forked in the parent keeps the pipe's other end open.
Elsewhere than on Linux the reader thread sees the end of the channel and ends the group.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys

from gpu_dispatch.runtime.c_signal import signal

F_SETSIG = 10  # not in the fcntl module before Python 3.13's typeshed; from <linux/fcntl.h>
PR_SET_PDEATHSIG = 1


def tie_to_parent(lifeline_fd: int) -> None:
    if sys.platform != "linux":
        return
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline_fd, F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, fcntl.fcntl(lifeline_fd, fcntl.F_GETFL) | os.O_ASYNC)
    # The parent may have died before the ropes were tied; the pipe is never written to, so readable means hung up.
    if select.select([lifeline_fd], [], [], 0)[0]:
        end_group()


def tie_second_rope() -> None:
    """Apart from the first, because it needs ctypes, which is slow to import: called once the worker is at work."""
    if sys.platform != "linux":
        return
    try:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (ImportError, OSError, AttributeError):
        pass  # no libc to call (musl builds without ctypes): the lifeline holds alone


def end_group() -> None:
    """End this process and everything it started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
