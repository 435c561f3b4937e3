"""Numbers as a person reads them: durations, rates, counts, sizes. Pure, and never wider than promised."""

from __future__ import annotations

import math

UNKNOWN = "–"


def duration(seconds: float | None) -> str:
    """At most six characters: ``420µs``, ``12ms``, ``3.2s``, ``41s``, ``4m05s``, ``3h12m``, ``2d04h``."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    seconds = max(0.0, seconds)
    if seconds < 0.0009995:
        return f"{seconds * 1e6:.0f}µs"
    if seconds < 0.00995:
        return f"{seconds * 1e3:.1f}ms"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    days = whole // 86400
    return f"{days}d{whole % 86400 // 3600:02d}h" if days < 100 else f"{days}d"


def clock(seconds: float | None) -> str:
    """Elapsed or remaining time in the form ``0:01:23``, with days in front when there are any."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    whole = max(0, int(seconds))
    text = f"{whole % 86400 // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    return f"{whole // 86400}d {text}" if whole >= 86400 else text


def rate(per_second: float | None) -> str:
    """``52,310/s``, ``12.5/s``, ``0.42/s``; slow ones per minute or hour, where they are whole numbers again."""
    if per_second is None or not math.isfinite(per_second):
        return UNKNOWN
    if per_second <= 0:
        return "0/s"
    if per_second >= 99.95:
        return f"{per_second:,.0f}/s"
    if per_second >= 9.995:
        return f"{per_second:.1f}/s"
    if per_second >= 0.1:
        return f"{per_second:.2f}/s"
    if per_second >= 0.1 / 60:
        return f"{per_second * 60:.1f}/min"
    return f"{per_second * 3600:.1f}/h"


def count(number: float | None) -> str:
    return UNKNOWN if number is None else f"{number:,.0f}"


def short_count(number: int | None) -> str:
    """At most five characters: ``99999``, ``123k``, ``1.2M``."""
    if number is None:
        return UNKNOWN
    if abs(number) < 100_000:
        return str(number)
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(number) >= size * 0.9995:
            scaled = number / size
            return f"{scaled:.1f}{letter}" if abs(scaled) < 99.95 else f"{scaled:.0f}{letter}"
    return f"{number / 1e3:.0f}k"


def size(number_of_bytes: float | None) -> str:
    """``512 B``, ``84 MB``, ``1.2 GB``; decimal units, as on a disk's box and in ``nvidia-smi``'s rivals."""
    if number_of_bytes is None:
        return UNKNOWN
    value = float(number_of_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            digits = 1 if unit in ("GB", "TB") and value < 99.95 else 0
            return f"{value:.{digits}f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


def gigabytes(used: float, total: float) -> str:
    """Memory of a device in one short column: ``12.3/80G``."""
    return f"{used / 2**30:.1f}/{total / 2**30:.0f}G"


def percent(share: float | None) -> str:
    """``0%`` to ``100%``; never ``100%`` before all of it is done."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    if share >= 1:
        return "100%"
    return f"{min(99, max(0, round(share * 100)))}%"


def plural(number: int, noun: str) -> str:
    return f"{count(number)} {noun}" if number == 1 else f"{count(number)} {noun}s"
