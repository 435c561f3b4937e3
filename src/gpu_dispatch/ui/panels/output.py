"""The output panel: the last lines that workers wrote. The whole of it is in their log files."""

from __future__ import annotations

from gpu_dispatch.ui.cells import Line, fit_line, width_of
from gpu_dispatch.ui.sanitise import last_overwritten, one_line
from gpu_dispatch.ui.snapshot import Snapshot, label


def output(snapshot: Snapshot, width: int, rows: int) -> list[Line]:
    """At most ``rows`` lines, the youngest last."""
    if rows <= 0:
        return []
    workers = snapshot.get("gpu_status") or {}
    lines = list(snapshot.get("output") or ())[-rows:]
    labels = [label(workers[who]) if who in workers else one_line(who) for who, _ in lines]
    widest = max((width_of(text) for text in labels), default=0)
    return [
        fit_line([(f"{who:>{widest}} ", "quiet"), (last_overwritten(text), "")], width)
        for who, (_, text) in zip(labels, lines, strict=True)
    ]
