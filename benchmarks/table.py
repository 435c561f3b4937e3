"""The Markdown of a run: the bars, every figure as a ratio, and the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.bars import OURS, Verdict, verdicts
from benchmarks.loads import LOADS, Figure, Load
from benchmarks.samples import Median, Medians
from benchmarks.systems import SYSTEMS

_VERDICT = {True: "kept", False: "**missed**", None: "not measured"}


def markdown(measured: Medians, failed: Mapping[tuple[str, str], str], machine: Mapping[str, str], rounds: int) -> str:
    parts = [
        "### Bars",
        bar_table(verdicts(measured)),
        "### Figures",
        f"Medians of {rounds} rounds, each measurement in a fresh process, systems interleaved. In brackets: how "
        "gpu_dispatch compares; above 1 it is the better one.",
        figure_table(measured, failed),
        "### What each row and column is",
        _glossary(measured),
        "### The machine",
        "\n".join(f"- {name}: {value}" for name, value in machine.items()),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def bar_table(found: Sequence[Verdict]) -> str:
    titles = {load.name: load.title for load in LOADS}
    lines = ["| load | bar | measured | |", "| --- | --- | --- | --- |"]
    for verdict in found:
        value = "–" if verdict.ratio is None else f"{verdict.ratio:.3g}"
        rival = f" ({verdict.rival})" if verdict.rival else ""
        lines.append(f"| {titles[verdict.bar.load]} | {verdict.text} | {value}{rival} | {_VERDICT[verdict.kept]} |")
    return "\n".join(lines)


def figure_table(measured: Medians, failed: Mapping[tuple[str, str], str]) -> str:
    """One row per load, one column per system that took part in any of them."""
    loads = [load for load in LOADS if load.name in measured]
    seen = {name for by_system in measured.values() for name in by_system} | {system for _, system in failed}
    columns = [system.name for system in SYSTEMS if system.name in seen]
    lines = ["| load | unit | " + " | ".join(columns) + " |", "| --- " * (len(columns) + 2) + "|"]
    for load in loads:
        of_load = measured[load.name]
        cells = [_cell(load, of_load, name, (load.name, name) in failed) for name in columns]
        lines.append(f"| {load.title} | {load.figure.value} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(load: Load, of_load: Mapping[str, Median], name: str, has_failed: bool) -> str:
    median = of_load.get(name)
    if median is None:
        return "failed" if has_failed else ""
    ours = of_load.get(OURS)
    text = short(median.value)
    if ours is None or name == OURS:
        return text
    ratio = ours.value / median.value if load.figure.more_is_better else median.value / ours.value
    return f"{text} ({short(ratio)})"


def short(value: float) -> str:
    """Three digits, whatever the size: 1234567 → 1,230,000; 0.012345 → 0.0123."""
    if value == 0:
        return "0"
    if abs(value) < 100:
        return f"{value:.3g}"
    digits = len(f"{abs(value):.0f}")
    return f"{round(value, 3 - digits):,.0f}"


def _glossary(measured: Medians) -> str:
    seen = {name for by_system in measured.values() for name in by_system}
    systems = [f"- `{system.name}`: {system.title}" for system in SYSTEMS if system.name in seen]
    limits = [f"  - {load.title}: {load.limit}" for load in LOADS if load.limit and load.name in measured]
    cold = [load.title for load in LOADS if load.name in measured and "cold" in load.title]
    notes = [
        "- Workers are up before the clock starts, and it stops with the last result"
        + (f"; not so in: {', '.join(cold)}" if cold else "")
    ]
    if any(load.figure is Figure.OVERTAKEN and load.name in measured for load in LOADS):
        notes.append(
            "- *Overtaken*: the most that a fast task still waited after a younger one had begun or a worker ran dry"
        )
    return "\n".join([*systems, *limits, *notes])
