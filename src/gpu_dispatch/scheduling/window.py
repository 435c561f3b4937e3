"""How many tasks a slot may hold, and how many go into one frame.

Too few and the worker idles while a message travels (some 0.2 ms); too many and tasks wait behind a slow one
while other GPUs idle. So the window follows measured durations: about 4 ms of work per frame, two frames per slot
(one being worked on, one waiting), never fewer than two tasks.
"""

from __future__ import annotations

FRAME_S = 0.004
"""Work per frame. Halve it and the cost of a frame (about 60 µs on both sides) shows in empty tasks; double it and
finished results wait longer than a person notices."""
LEAST = 2
MOST = 4096
UNKNOWN = 2  # before anything was measured: one to run, one to wait

STALL_S = 0.020
"""A worker this quiet is looked at. A tenth of it would look at every 2 ms task; ten times it and a fast task could
wait 0.2 s behind a slow one."""
STALL_MEANS = 4.0
"""... or this many times its mean duration, so that evenly long tasks never count as stalled."""


def window(mean_s: float | None, batch_size: int) -> int:
    """How many tasks a slot may hold at most."""
    if mean_s is None:
        return UNKNOWN * batch_size
    wanted = int(2 * FRAME_S / mean_s) if mean_s > 0 else MOST
    return max(LEAST * batch_size, min(MOST, wanted))


def fair_share(unsettled: int, slots: int, *, input_ended: bool) -> int:
    """What one slot may hold when the work is shared out evenly; smaller and smaller once the input has ended."""
    slots = max(1, slots)
    return max(1, -(-unsettled // (2 * slots if input_ended else slots)))


def updated_mean(mean_s: float | None, sample_s: float, count: int) -> float:
    """A moving mean that believes a frame of many tasks more than a single one."""
    if mean_s is None:
        return sample_s
    weight = min(0.5, 0.2 + 0.01 * count)
    return mean_s + weight * (sample_s - mean_s)


def stall_after_s(mean_s: float | None) -> float:
    """How long a worker may be quiet before it is looked at."""
    return max(STALL_S, STALL_MEANS * (mean_s or 0.0))
