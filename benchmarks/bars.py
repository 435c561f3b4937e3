"""What we promise for each load, as data, and whether a run keeps it.

A bar compares gpu_dispatch's median with another median of the same run, or with a plain number in the load's
own unit. Ratios are taken in one run on one machine, so they carry over to other machines as absolute rates do not.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.loads import BY_NAME, PEERS
from benchmarks.samples import Medians

OURS = "gpu_dispatch"
BEST_PEER = "the best peer"


@dataclass(frozen=True, slots=True)
class Bar:
    load: str
    factor: float
    against: str | None = None
    """A system, ``BEST_PEER``, or ``None`` for a plain number."""
    other_load: str | None = None
    """Compare with our own figure on this load instead."""


@dataclass(frozen=True, slots=True)
class Verdict:
    bar: Bar
    text: str
    """The bar in words: ``≥ 25 × shared_queue``."""
    ratio: float | None
    rival: str | None = None
    """Who the best peer was."""

    @property
    def kept(self) -> bool | None:
        """``None`` when the run did not measure it."""
        if self.ratio is None:
            return None
        if BY_NAME[self.bar.load].figure.more_is_better:
            return self.ratio >= self.bar.factor
        return self.ratio <= self.bar.factor


BARS: tuple[Bar, ...] = (
    Bar("empty", 25, "shared_queue"),
    Bar("empty", 3, BEST_PEER),
    Bar("empty", 0.4, "pool_64"),
    Bar("records", 6, "shared_queue"),
    Bar("records", 1.3, BEST_PEER),
    Bar("arrays_in", 10, BEST_PEER),
    Bar("arrays_io", 8, BEST_PEER),
    Bar("big_arrays", 6, BEST_PEER),
    Bar("big_arrays", 0.5, "limit"),
    Bar("sleep_1ms", 0.97, "limit"),
    Bar("sleep_10ms", 0.99, "limit"),
    Bar("lognormal", 1.10),
    Bar("lognormal_cost", 1.05),
    Bar("stragglers", 50),
    Bar("first_result", 2, "limit"),
    Bar("scheduler_8", 3),
    Bar("scheduler_1024", 2, other_load="scheduler_8"),
)


def judge(bar: Bar, measured: Medians) -> Verdict:
    figure = BY_NAME[bar.load].figure
    sign = "≥" if figure.more_is_better else "≤"
    ours = measured.get(bar.load, {}).get(OURS)
    if bar.against is None and bar.other_load is None:
        return Verdict(bar, f"{sign} {bar.factor:g} {figure.value}", ours.value if ours else None)
    text = f"{sign} {bar.factor:g} × {bar.other_load or bar.against}"
    rival = OURS if bar.other_load else bar.against
    of_load = measured.get(bar.other_load or bar.load, {})
    if bar.against == BEST_PEER:
        rival = best_peer(bar.load, measured)
    theirs = of_load.get(rival) if rival else None
    ratio = ours.value / theirs.value if ours and theirs else None
    return Verdict(bar, text, ratio, rival if bar.against == BEST_PEER else None)


def best_peer(load: str, measured: Medians) -> str | None:
    by_system = {name: m.value for name, m in measured.get(load, {}).items() if name in PEERS}
    if not by_system:
        return None
    best = max if BY_NAME[load].figure.more_is_better else min
    return best(by_system, key=lambda name: by_system[name])


def verdicts(measured: Medians) -> list[Verdict]:
    """Of the bars whose load was part of the run."""
    return [judge(bar, measured) for bar in BARS if bar.load in measured]
