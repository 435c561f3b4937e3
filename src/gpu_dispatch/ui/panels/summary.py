"""The summary that stays on the screen: every GPU, the slowest tasks, failures by cause, totals, speed, the logs."""

from __future__ import annotations

from gpu_dispatch.ui.cells import Block, Line, boxed, fit_line, flow, headed, inner_width
from gpu_dispatch.ui.formatting import clock, count, duration, plural, rate
from gpu_dispatch.ui.panels.errors import errors
from gpu_dispatch.ui.panels.gpu_table import gpu_table
from gpu_dispatch.ui.panels.overall import STATE_STYLES
from gpu_dispatch.ui.sanitise import one_line
from gpu_dispatch.ui.snapshot import Snapshot, label, settled, totals

_MOST_WORKERS = 256
_MOST_CAUSES = 10
_MOST_SLOW_TASKS = 5
_SMALLEST_BOXED = 40


def summary(snapshot: Snapshot, width: int, *, frames: bool = True) -> Block:
    """What was done, in lines of at most ``width`` cells; as many lines as it takes."""
    width = max(1, width)
    is_boxed = frames and width >= _SMALLEST_BOXED
    draw = boxed if is_boxed else headed
    inner = inner_width(width) if is_boxed else width
    state = str(snapshot.get("state") or "ended")
    title = f"gpu_dispatch: {state} after {clock(snapshot.get('elapsed_s') or 0)}"
    workers = snapshot.get("gpu_status") or {}
    lines: list[Line] = []
    if workers:
        table = gpu_table(snapshot, inner, _MOST_WORKERS, at_rest=True)
        lines += draw(plural(len(workers), "worker"), table, width)
    if snapshot.get("slowest"):
        lines += draw("slowest tasks", _slowest(snapshot, inner), width)
    if snapshot.get("errors"):
        lines += draw("failures by cause", errors(snapshot, inner, _MOST_CAUSES), width)
    # Last, because that is what is seen above the prompt when a hundred workers have scrolled by.
    lines += draw(title, _totals(snapshot, inner), width, title_style=STATE_STYLES.get(state, "title"))
    lines = [fit_line(line, width) for line in lines]
    if snapshot.get("log_dir"):  # never cut: a path is there to be copied
        lines.append([("worker logs: ", "dim"), (one_line(snapshot["log_dir"]), "")])
    return Block(lines)


def _totals(snapshot: Snapshot, width: int) -> list[Line]:
    styles = {"done": "good", "failed": "bad", "timed": "warn", "cancelled": "warn", "unsettled": "bad"}
    chips: list[Line] = [[(f"{plural(snapshot.get('total') or settled(snapshot), 'task')}:", "bold")]]
    chips += [[(words, styles.get(words.split()[1], "")), (",", "")] for words in totals(snapshot)]
    chips[-1].pop()
    lines = flow(chips, width, gap=" ")
    speed: list[Line] = [[(rate(snapshot.get("throughput")), "bold")]]
    for key, word in (
        ("retries", "retries"),
        ("restarts", "restarts"),
        ("setup_failures", "setups failed"),
        ("cleanup_failures", "cleanups failed"),
    ):
        if snapshot.get(key):
            speed.append([(f"{word} ", "dim"), (count(snapshot[key]), "again")])
    expected, done = snapshot.get("expected_total"), settled(snapshot)
    if expected is not None and done < expected:
        speed.append([(f"{count(expected - done)} of {count(expected)} not reached", "warn")])
    return lines + flow(speed, width)


def _slowest(snapshot: Snapshot, width: int) -> list[Line]:
    workers = snapshot.get("gpu_status") or {}
    chips: list[Line] = []
    for task in list(snapshot["slowest"])[:_MOST_SLOW_TASKS]:
        who = task.get("worker_id")
        gpu = label(workers[who]) if who in workers else one_line(who)
        chips.append([(duration(task.get("duration_s")), "bold"), (f" task {task.get('task_id')} on GPU {gpu}", "dim")])
    return flow(chips, width, gap="    ")
