"""The errors panel: failures grouped by cause, with how often and where last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_dispatch.ui.cells import Line, fit, fit_line, width_of
from gpu_dispatch.ui.formatting import count, short_count
from gpu_dispatch.ui.sanitise import one_line
from gpu_dispatch.ui.snapshot import Snapshot


def errors(snapshot: Snapshot, width: int, rows: int) -> list[Line]:
    """At most ``rows`` lines, the most frequent cause first; what is left out is counted."""
    groups = list(snapshot.get("errors") or ())
    if len(groups) > rows:
        shown, hidden = groups[: max(0, rows - 1)], groups[max(0, rows - 1) :]
        cases = sum(int(group.get("count") or 0) for group in hidden)
        rest = [fit_line([(f"… {len(hidden)} more causes, {count(cases)} cases", "dim")], width)] if rows > 0 else []
    else:
        shown, rest = groups, []
    return [_group(group, width) for group in shown] + rest


def _group(group: Mapping[str, Any], width: int) -> Line:
    times = f"{short_count(group.get('count'))}×"
    last = group.get("last_task")
    where = f"  last: task {last}" if last is not None else ""
    room = width - 7 - width_of(where)
    if room < 20:
        where, room = "", width - 7
    cause = one_line(group.get("cause") or "unknown cause")
    return fit_line([(f"{times:>6} ", "bad"), (fit(cause, room), ""), (where, "dim")], width)
