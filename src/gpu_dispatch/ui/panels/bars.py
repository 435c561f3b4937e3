"""Bars instead of panels, for ``progress="rich"``: one line for the run, one per GPU."""

from __future__ import annotations

from gpu_dispatch.ui.cells import Block, Line, fit_line, width_of
from gpu_dispatch.ui.formatting import clock, count, duration, percent, rate
from gpu_dispatch.ui.panels.gpu_table import STATUS_STYLES
from gpu_dispatch.ui.sanitise import one_line
from gpu_dispatch.ui.snapshot import Snapshot, Worker, label, settled, share_done
from gpu_dispatch.ui.sparkline import progress_bar

_LONGEST_BAR = 40


def bars(snapshot: Snapshot, width: int, height: int) -> Block:
    """At most ``height`` lines; when not every GPU has a line, the last one counts the rest."""
    workers = list((snapshot.get("gpu_status") or {}).values())
    labels = max((width_of(label(w)) for w in workers), default=1)
    room = max(0, height - 1)
    shown = workers if len(workers) <= room else workers[: max(0, room - 1)]
    lines = [_overall(snapshot, width), *(_worker(w, labels, width) for w in shown)]
    if len(shown) < len(workers) and room:
        lines.append(fit_line([(f"… {len(workers) - len(shown)} more", "dim")], width))
    return Block(lines)


def last_bar(snapshot: Snapshot, width: int) -> Block:
    """What stays on the screen."""
    return Block([_overall(snapshot, width)])


def _overall(snapshot: Snapshot, width: int) -> Line:
    done, share = settled(snapshot), share_done(snapshot)
    eta = snapshot.get("eta_s")
    text = f" {rate(snapshot.get('throughput_recent') or snapshot.get('throughput'))}"
    if share is None:
        text = f"{count(done)} tasks {clock(snapshot.get('elapsed_s') or 0)}{text}"
    else:
        text = f" {percent(share):>4} {count(done)}/{count(snapshot['expected_total'])}{text}"
        text += f" ETA {clock(eta[1])}" if eta and snapshot.get("state") == "running" else ""
    bad = (snapshot.get("failed") or 0) + (snapshot.get("timeouts") or 0)
    failed = f" {count(bad)} failed" if bad else ""
    room = min(_LONGEST_BAR, width - width_of(text) - width_of(failed))
    filled, empty = progress_bar(share, room) if share is not None and room >= 5 else ("", "")
    return fit_line([(filled, "good"), (empty, "frame"), (text, "bold"), (failed, "bad")], width)


def _worker(worker: Worker, labels: int, width: int) -> Line:
    status = str(worker.get("status"))
    share = worker.get("busy_share") or 0.0
    filled, empty = progress_bar(share, 10)
    age = worker.get("current_age_s")
    if age is None and status in ("initializing", "restarting"):
        age = worker.get("status_age_s")
    return fit_line(
        [
            (f"GPU {label(worker):<{labels}} ", "bold"),
            (filled, "quiet"),
            (empty, "frame"),
            (f" busy {percent(share):>4}  {count(worker.get('completed') or 0)} done  ", ""),
            (one_line(status), STATUS_STYLES.get(status, "")),
            (f" {duration(age)}" if age is not None else "", "dim"),
        ],
        width,
    )
