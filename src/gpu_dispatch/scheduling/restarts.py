"""How soon a slot starts again after a failure, and when it is given up.

A death while a task runs is charged to the task; the slot is charged only with what happens *in a row*, without one
finished task between: then it is the GPU, the driver or the setup that is broken, not a task.
"""

from __future__ import annotations

FIRST_BACKOFF_S = 0.05
MOST_BACKOFF_S = 5.0
"""Long enough for a driver to reset a GPU between the last few attempts, short enough not to waste a card that
came back."""
FIRST_STARTS = 3
"""A slot that has never been ready is given up after this many dead processes: a setup that dies three times in a
row will die a fourth time."""


def backoff_s(failures_in_a_row: int) -> float:
    """The wait before the next start. The first restart is immediate: one death says nothing about the slot."""
    if failures_in_a_row <= 1:
        return 0.0
    return min(MOST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (failures_in_a_row - 2))


def give_up(failures_in_a_row: int, *, max_restarts: int, was_ready: bool) -> bool:
    if not was_ready and failures_in_a_row >= FIRST_STARTS:
        return True
    return failures_in_a_row > max_restarts
