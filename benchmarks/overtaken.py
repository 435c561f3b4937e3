"""How long a task stood behind a straggler, seen from outside.

A dispatcher that takes tasks in order owes task *i* a start no later than the moment it lets a younger task begin,
or lets another worker run out of work. What passes after that moment is time that *i* was overtaken: it sat in
the queue of a worker busy with something else. Time in which every worker is in the middle of a straggler does not
count: nobody could have taken it. Only the workers' clocks are used, so any system can be measured.
"""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, float, float, int]
"""(number, started_at, ended_at, process)"""
Period = tuple[float, float]


def longest_overtaken_s(spans: Iterable[Span], fast_s: float) -> float:
    """The most that a task of at most ``fast_s`` was overtaken; stragglers themselves may wait."""
    in_order = sorted(spans, reverse=True)  # youngest first
    last_end_of: dict[int, float] = {}
    for _, _, ended_at, process in in_order:
        last_end_of[process] = max(ended_at, last_end_of.get(process, ended_at))
    jams = when_all_are_in(
        [(start, end) for _, start, end, _ in in_order if end - start > fast_s], workers=len(last_end_of)
    )
    worst = 0.0
    youngest_start = float("inf")
    for _, started_at, ended_at, process in in_order:
        if ended_at - started_at <= fast_s:
            idle_since = min((end for other, end in last_end_of.items() if other != process), default=youngest_start)
            since = min(youngest_start, idle_since)
            jammed_s = sum(max(0.0, min(end, started_at) - max(start, since)) for start, end in jams)
            worst = max(worst, started_at - since - jammed_s)
        youngest_start = min(youngest_start, started_at)
    return worst


def when_all_are_in(stragglers: list[Period], workers: int) -> list[Period]:
    """The periods in which as many stragglers run as there are workers."""
    changes = sorted([(start, 1) for start, _ in stragglers] + [(end, -1) for _, end in stragglers])
    jams: list[Period] = []
    running, began = 0, 0.0
    for at, change in changes:
        if running == workers:
            jams.append((began, at))
        running += change
        began = at
    return jams
