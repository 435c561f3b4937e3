"""The overall panel: how far the run is, how fast it goes, when it will end, what went wrong so far."""

from __future__ import annotations

from gpu_dispatch.ui.cells import Line, fit_line, flow, width_of
from gpu_dispatch.ui.formatting import clock, count, percent, rate, size
from gpu_dispatch.ui.snapshot import Snapshot, settled, share_done
from gpu_dispatch.ui.sparkline import progress_bar, sparkline

_NARROW = 40  # below that, the mean and the sparkline are left out

STATE_STYLES = {"running": "good", "draining": "warn", "failed": "bad", "interrupted": "warn", "finished": "done"}


def overall(snapshot: Snapshot, width: int) -> list[Line]:
    """The most important line first: a caller short of room takes them from the top."""
    chips = [*_counts(snapshot), *_speed(snapshot, width), *_incidents(snapshot), *_load(snapshot)]
    return [_progress(snapshot, width), *flow(chips, width)]


def _progress(snapshot: Snapshot, width: int) -> Line:
    done, share = settled(snapshot), share_done(snapshot)
    if share is None:
        return fit_line([(count(done), "bold"), (" settled, length of the input unknown", "dim")], width)
    text = f" {percent(share):>4}  {count(done)}/{count(snapshot['expected_total'])}"
    room = width - width_of(text)
    if room < 5:
        return fit_line([(text.strip(), "bold")], width)
    filled, empty = progress_bar(share, room)
    return [(filled, "good"), (empty, "frame"), (text, "bold")]


def _counts(snapshot: Snapshot) -> list[Line]:
    failed, crashed = snapshot.get("failed") or 0, snapshot.get("crashed") or 0
    return [
        _chip("done", snapshot.get("completed"), "good"),
        _chip("failed", failed, "bad") + ([(f" ({count(crashed)} crashed)", "bad")] if crashed else []),
        _chip("timed out", snapshot.get("timeouts"), "warn"),
    ]


def _incidents(snapshot: Snapshot) -> list[Line]:
    kinds = (
        ("cancelled", "cancelled", "warn"),
        ("retries", "retries", "again"),
        ("restarts", "restarts", "again"),
        ("setups failed", "setup_failures", "bad"),
        ("cleanups failed", "cleanup_failures", "bad"),
    )
    return [_chip(word, snapshot.get(key), style) for word, key, style in kinds if snapshot.get(key)]


def _chip(word: str, number: int | None, style: str) -> Line:
    number = number or 0
    return [(f"{word} ", "dim"), (count(number), style if number else "")]


def _speed(snapshot: Snapshot, width: int) -> list[Line]:
    mean, recent = snapshot.get("throughput"), snapshot.get("throughput_recent")
    chip: Line = [(rate(recent if recent is not None else mean), "bold")]
    if recent is not None and mean is not None and width >= _NARROW:
        chip.append((f" (mean {rate(mean)})", "dim"))
    history = snapshot.get("throughput_history") or ()
    if len(history) > 1 and width >= _NARROW:
        chip += [(" ", ""), (sparkline(history, min(60, max(8, width // 5))), "spark")]
    chips = [chip]
    if snapshot.get("expected_total") is not None and snapshot.get("state") in ("running", "starting"):
        chips.append(_eta(snapshot.get("eta_s")))
    return chips


def _eta(eta: tuple[float, float, float] | None) -> Line:
    if eta is None:
        return [("ETA ", "dim"), ("–", "")]
    low, mid, high = eta
    return [("ETA ", "dim"), (clock(mid), "bold"), (f" ({clock(low)}–{clock(high)})", "dim")]


def _load(snapshot: Snapshot) -> list[Line]:
    chips: list[Line] = [
        [("queued ", "dim"), (count(snapshot.get("queue_depth") or 0), "")],
        [("in flight ", "dim"), (count(snapshot.get("in_flight") or 0), "")],
    ]
    if snapshot.get("rss_bytes") is not None:
        chips.append([("memory ", "dim"), (size(snapshot["rss_bytes"]), "")])
    return chips
