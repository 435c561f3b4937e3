"""Ways to share files out in advance: functions of (file, size) pairs and a number of shares.

The launcher itself shares nothing out in advance: its workers take the next file when they are free, which no
forecast beats. These are for those who need fixed shares, say one per machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from pathlib import Path

Strategy = Callable[[Sequence[tuple[Path, int]], int], list[list[Path]]]


def round_robin(files: Sequence[tuple[Path, int]], shares: int) -> list[list[Path]]:
    """Largest first, dealt like cards."""
    ordered = [path for path, _ in largest_first(files)]
    return [ordered[share::shares] for share in range(shares)]


def size_balanced(files: Sequence[tuple[Path, int]], shares: int) -> list[list[Path]]:
    """Largest first, each to the share that has least so far: never more than 4/3 of the best possible."""
    dealt: list[list[Path]] = [[] for _ in range(shares)]
    loads = [(0, 0, share) for share in range(shares)]  # bytes, then files: empty ones are shared out too
    for path, size in largest_first(files):
        load, count, share = heapq.heappop(loads)
        dealt[share].append(path)
        heapq.heappush(loads, (load + size, count + 1, share))
    return dealt


STRATEGIES: dict[str, Strategy] = {"round-robin": round_robin, "size-balanced": size_balanced}


def largest_first(files: Sequence[tuple[Path, int]]) -> list[tuple[Path, int]]:
    return sorted(files, key=lambda pair: (-pair[1], str(pair[0])))
