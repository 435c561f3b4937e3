"""Enough file descriptors for all workers, seen to before the first one starts."""

from __future__ import annotations

import os
import resource

from gpu_dispatch.errors import UsageError

PER_WORKER = 12
"""Channel, lifeline, exit notice, two output pipes and two arenas, and as many again while one is being started."""
SPARE = 32


def ensure_descriptors(workers: int) -> None:
    """Raise the soft limit where the hard one allows it; a UsageError where that is not enough."""
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError:
        used = 64
    needed = used + SPARE + PER_WORKER * workers
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UsageError(
            f"{workers} workers need about {needed} open files, and this process may open {hard}: "
            "use fewer workers, or raise the limit (ulimit -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
