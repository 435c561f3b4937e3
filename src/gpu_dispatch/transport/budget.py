"""How much shared memory the arenas may use. The parent reckons this; workers are told."""

from __future__ import annotations

import os
from os.path import join

UNKNOWN_MEMORY = 8 << 30
"""What is assumed where nothing tells how much there is."""


def arena_bytes(workers: int) -> int:
    """The limit of one arena, when ``workers`` workers have two each: a quarter of the memory in all."""
    return max(16 << 20, min(1 << 30, memory_of_this_machine() // 4 // (2 * max(1, workers))))


def memory_of_this_machine(root: str | os.PathLike[str] = "/") -> int:
    """What processes here may use together: the machine's memory, or what the container leaves of it."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        memory = UNKNOWN_MEMORY
    return min([memory, *_control_group_limits(os.fspath(root))])


def _control_group_limits(root: str) -> list[int]:
    """Of our group and of those around it. Inside a container ours looks like the outermost one."""
    limits: list[int] = []
    for line in _read(join(root, "proc/self/cgroup")).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            base, file = join(root, "sys/fs/cgroup"), "memory.max"
        elif "memory" in controllers.split(","):
            base, file = join(root, "sys/fs/cgroup/memory"), "memory.limit_in_bytes"
        else:
            continue
        parts = [part for part in path.split("/") if part]
        for depth in range(len(parts) + 1):
            text = _read(join(base, *parts[:depth], file)).strip()
            if text.isdigit():  # "max" means none
                limits.append(int(text))
    return limits


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""
