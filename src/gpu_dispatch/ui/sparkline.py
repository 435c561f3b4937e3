"""The last minute's throughput as one row of blocks."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """The youngest ``width`` values, the lowest bar for zero, the highest for the largest of those shown."""
    shown = [max(0.0, v) for v in values[-width:]] if width > 0 else []
    top = max(shown, default=0.0)
    if top <= 0:
        return _BARS[0] * len(shown)
    # Anything above zero is at least one step up: a trickle must not look like standstill.
    return "".join(_BARS[0] if v == 0 else _BARS[max(1, round(v / top * (len(_BARS) - 1)))] for v in shown)


def progress_bar(share: float, width: int) -> tuple[str, str]:
    """The filled and the empty part of a bar of exactly ``width`` cells; full only when the share is 1."""
    width = max(0, width)
    filled = width if share >= 1 else min(int(max(0.0, share) * width), width - 1)
    filled = max(0, filled)
    return "━" * filled, "─" * (width - filled)
