"""A worker does not outlive its parent, not even when the parent is killed by SIGKILL and user code holds the GIL.

The *lifeline* is a pipe whose other end only the parent holds (children that it forks close their copies, see
backends/process.py). When the parent dies the pipe hangs up, and the kernel sends SIGKILL to the worker's whole
process group (O_ASYNC with F_SETSIG): data-loader children go as well. Elsewhere than on Linux the reader thread sees
the end of the channel and ends the group.

PR_SET_PDEATHSIG is of no use beside it: it comes when the *thread* that started us ends, which is before the parent's
descriptors are closed; it would kill this process alone, and with it the pipe that would have killed the others.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys

from gpu_dispatch.runtime.c_signal import signal

F_SETSIG = 10  # not in the fcntl module before Python 3.13's typeshed; from <linux/fcntl.h>


def tie_to_parent(lifeline_fd: int) -> None:
    if sys.platform != "linux":
        return
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline_fd, F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, fcntl.fcntl(lifeline_fd, fcntl.F_GETFL) | os.O_ASYNC)
    # The parent may have died before this was set up; the pipe is never written to, so readable means hung up.
    if select.select([lifeline_fd], [], [], 0)[0]:
        end_group()


def end_group() -> None:
    """End this process and everything it started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
