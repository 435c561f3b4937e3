"""The figures as one SVG: a panel per load, a bar per system, on a logarithmic axis. Hand-made, no dependency."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from benchmarks.bars import OURS
from benchmarks.loads import LOADS, Load
from benchmarks.samples import Median, Medians
from benchmarks.table import short

WIDTH, MARGIN, NAMES, VALUES = 760, 16, 150, 110
BAR, GAP, HEAD, FOOT = 16, 5, 34, 26

_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600; font-size: 13px }
  .unit { fill: #57606a; font-weight: 400 } .tick { fill: #57606a; font-size: 10px }
  .paper { fill: #ffffff } .ours { fill: #1a7f37 } .other { fill: #8c959f } .limit { fill: #d4a72c }
  .grid { stroke: #d0d7de; stroke-width: 1 } .range { stroke: #24292f; stroke-width: 1.2 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .unit, .tick { fill: #9198a1 } .paper { fill: #0d1117 }
    .ours { fill: #3fb950 } .other { fill: #6e7681 } .grid { stroke: #30363d } .range { stroke: #e6edf3 }
  }
"""


def svg(measured: Medians) -> str:
    panels: list[str] = []
    top = MARGIN
    for load in LOADS:
        if len(measured.get(load.name, {})) > 1:  # a bar with nothing beside it says nothing
            panel, height = _panel(load, measured[load.name], top)
            panels.append(panel)
            top += height
    size = f'width="{WIDTH}" height="{top}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" {size} role="img">\n'
        f"<title>gpu_dispatch beside its peers</title>\n<style>{_STYLE}</style>\n"
        f'<rect class="paper" {size}/>\n'
    )
    return head + "".join(panels) + "</svg>\n"


def _panel(load: Load, of_load: Mapping[str, Median], top: int) -> tuple[str, int]:
    better = load.figure.more_is_better
    ranked = sorted(of_load.items(), key=lambda pair: pair[1].value, reverse=better)
    low, high = decades([m.low for _, m in ranked] + [m.high for _, m in ranked])
    height = HEAD + len(ranked) * (BAR + GAP) + FOOT
    note = f"{load.figure.value}, {load.workers} workers, {'more' if better else 'less'} is better, log scale"
    out = [
        f'<text class="title" x="{MARGIN}" y="{top + 14}">{escape(load.title)} '
        f'<tspan class="unit">{escape(note)}</tspan></text>\n'
    ]
    bottom = top + HEAD + len(ranked) * (BAR + GAP)
    for exponent in range(low, high + 1):
        x = _x(10.0**exponent, low, high)
        out.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top + HEAD - 6}" y2="{bottom}"/>\n')
        out.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 11}" text-anchor="middle">{_tick(exponent)}</text>\n')
    for i, (name, median) in enumerate(ranked):
        out.append(_bar(name, median, top + HEAD + i * (BAR + GAP), low, high))
    return "".join(out), height


def _bar(name: str, median: Median, y: int, low: int, high: int) -> str:
    kind = "ours" if name == OURS else "limit" if name == "limit" else "other"
    left, right = _x(10.0**low, low, high), _x(median.value, low, high)
    spread_from, spread_to = _x(median.low, low, high), _x(median.high, low, high)
    middle = y + BAR / 2
    return (
        f'<text x="{MARGIN + NAMES - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>\n'
        f'<rect class="{kind}" x="{left:.1f}" y="{y}" width="{max(1.0, right - left):.1f}" height="{BAR}" rx="2"/>\n'
        f'<line class="range" x1="{spread_from:.1f}" x2="{spread_to:.1f}" y1="{middle}" y2="{middle}"/>\n'
        f'<text x="{max(right, spread_to) + 6:.1f}" y="{y + 12}">{escape(short(median.value))}</text>\n'
    )


def decades(values: list[float]) -> tuple[int, int]:
    """The powers of ten that hold all values, at least one decade apart."""
    positive = [v for v in values if v > 0] or [1.0]
    low = math.floor(math.log10(min(positive)))
    return low, max(low + 1, math.ceil(math.log10(max(positive))))


def _tick(exponent: int) -> str:
    """10^5 → 100k"""
    if exponent < 0:
        return f"{10.0**exponent:g}"
    return f"{10 ** (exponent % 3)}{('', 'k', 'M', 'G')[min(3, exponent // 3)]}"


def _x(value: float, low: int, high: int) -> float:
    share = (math.log10(max(value, 10.0**low)) - low) / (high - low)
    return MARGIN + NAMES + share * (WIDTH - 2 * MARGIN - NAMES - VALUES)
