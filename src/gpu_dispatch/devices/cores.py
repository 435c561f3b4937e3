"""How many cores this process may use, which of them a worker should keep to, and how many threads it may start.

The share of a worker is the usable cores divided by the workers: two workers that each start a thread per core
run slower than one. Usable is what the affinity of this process *and* the CPU quota of its container allow; with
``docker --cpus=4`` on 64 cores the affinity alone would say 64.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping

from gpu_dispatch.devices import sysfs
from gpu_dispatch.devices.model import Device

OMP = "OMP_NUM_THREADS"
_FOLLOW_OMP = ("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_OF_THEIR_OWN = ("VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS")


def usable_cores() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def core_budget(root: str = "/") -> int:
    """How many cores' worth of time this process may use."""
    quota = _cpu_quota(root)
    cores = len(usable_cores())
    return max(1, min(cores, math.ceil(quota))) if quota else cores


def _cpu_quota(root: str) -> float | None:
    # Inside a container its own group is mounted at the top; outside, the top has no limit. Version 2, then 1.
    limit, _, period = (sysfs.text(root, "sys/fs/cgroup/cpu.max") or "").partition(" ")
    if limit.isdigit() and period.isdigit():
        return int(limit) / max(int(period), 1)
    old_limit = sysfs.number(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us")
    old_period = sysfs.number(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us")
    return old_limit / old_period if old_limit and old_limit > 0 and old_period else None


def thread_caps(share: int, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that keep a worker's libraries to ``share`` threads. What the user has set stays."""
    # These libraries read OMP_NUM_THREADS when their own variable is missing; setting theirs would overrule the user.
    names = (*_OF_THEIR_OWN,) if OMP in environ else (OMP, *_FOLLOW_OMP, *_OF_THEIR_OWN)
    return {name: str(share) for name in names if name not in environ}


def near(devices: Iterable[Device], root: str = "/") -> frozenset[int] | None:
    """The usable cores on the NUMA nodes of these devices; None when unknown, or when that is all of them."""
    usable = usable_cores()
    cores: set[int] = set()
    for device in devices:
        if device.numa_node is None:
            return None
        cores |= sysfs.cpu_list(sysfs.text(root, f"sys/devices/system/node/node{device.numa_node}/cpulist"))
    found = frozenset(cores) & usable
    return found if found and found != usable else None
