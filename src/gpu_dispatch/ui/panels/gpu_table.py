"""The GPU table: one row per worker, as many columns as the width allows, as many rows as the height allows.

When the rows do not fit, the troubled come first, then the busiest; the rest is counted in the last line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_dispatch.ui.cells import Cell, Line, fit, fit_line, width_of
from gpu_dispatch.ui.formatting import duration, gigabytes, percent, short_count
from gpu_dispatch.ui.sanitise import one_line
from gpu_dispatch.ui.snapshot import Snapshot, Worker, label, last_words, near_limit

STATUS_STYLES = {
    "processing": "busy",
    "idle": "quiet",
    "initializing": "starting",
    "finished": "done",
    "error": "bad",
    "restarting": "again",
    "out of service": "bad",
}
_SHORT_STATUS = {
    "processing": "busy",
    "initializing": "setup",
    "finished": "done",
    "restarting": "restart",
    "out of service": "out",
}
_RANK = {"out of service": 0, "error": 1, "restarting": 2, "initializing": 4, "processing": 5, "idle": 6, "finished": 7}
_NEAR_LIMIT_RANK = 3
_NARROW = 60
_ROOMY = 100
_SHORTEST_NOTE = 14


@dataclass(frozen=True, slots=True)
class Column:
    header: str
    width: int
    cell: Callable[[Worker], Cell]
    right: bool = True


def gpu_table(snapshot: Snapshot, width: int, rows: int, *, at_rest: bool = False) -> list[Line]:
    """A header and at most ``rows`` lines; ``at_rest`` leaves out what only means something while tasks run."""
    workers = list((snapshot.get("gpu_status") or {}).values())
    columns = _columns(workers, snapshot.get("devices") or {}, width, at_rest)
    gap = " " if width < _ROOMY else "  "
    shown, rest = _chosen(workers, rows)
    lines = [fit_line([(gap.join(fit(c.header, c.width, right=c.right) for c in columns), "dim")], width)]
    lines += [_row(worker, columns, gap, width) for worker in shown]
    if rest:
        lines.append(fit_line([(_counted(rest), "dim")], width))
    return lines


def _chosen(workers: Sequence[Worker], rows: int) -> tuple[list[Worker], list[Worker]]:
    if len(workers) <= rows:
        return list(workers), []
    ranked = sorted(workers, key=_urgency)
    room = max(0, rows - 1)
    return ranked[:room], ranked[room:]


def _urgency(worker: Worker) -> tuple[int, float]:
    rank = _NEAR_LIMIT_RANK if near_limit(worker) else _RANK.get(str(worker.get("status")), 1)
    # In tenths, so that rows do not change places four times a second; sorting is stable for the rest.
    return rank, -round((worker.get("busy_share") or 0.0) * 10)


def _counted(rest: Sequence[Worker]) -> str:
    kinds = Counter(str(worker.get("status")) for worker in rest)
    return f"… {len(rest)} more: " + ", ".join(f"{n} {one_line(status)}" for status, n in kinds.most_common())


def _row(worker: Worker, columns: Sequence[Column], gap: str, width: int) -> Line:
    line: Line = []
    for column in columns:
        text, style = column.cell(worker)
        line += [(fit(text, column.width, right=column.right), style), (gap, "")]
    return fit_line(line[:-1], width)


def _columns(workers: Sequence[Worker], readings: Mapping[Any, Any], width: int, at_rest: bool) -> list[Column]:
    """In the order of display; chosen in the order of importance until the width is used up."""
    narrow = width < _NARROW
    labels = max((width_of(label(w)) for w in workers), default=1)
    tasks = max((len(str(w.get("current_task"))) for w in workers), default=4)
    candidates = {
        "gpu": Column("GPU", min(max(3, labels), 12), lambda w: (label(w), "bold"), right=False),
        "status": Column("status", 7 if narrow else 14, _short_status if narrow else _status, right=False),
        "task": Column("task", min(max(5, tasks), 9), _task),
        "age": Column("age", 11 if any(w.get("task_timeout") for w in workers) else 6, _age),
        "done": Column("done", 5, lambda w: (short_count(w.get("completed") or 0), "")),
        "failed": Column("fail", 5, _number("failed", "bad")),
        "timeouts": Column("t/o", 4, _number("timeouts", "warn")),
        "last": Column("last", 6, lambda w: (duration(w.get("last_duration")), "")),
        "median": Column("median", 6, lambda w: (duration(w.get("median_duration")), "")),
        "busy": Column("busy", 4, lambda w: (percent(w.get("busy_share")), "")),
        "util": Column("util", 4, lambda w: _utilisation(w, readings)),
        "memory": Column("memory", 10, lambda w: _memory(w, readings)),
        "batch": Column("batch", 5, lambda w: (short_count(w.get("batch_size")), "")),
        "restarts": Column("restarts", 8, _number("restarts", "again")),
        "setup": Column("setup", 6, lambda w: (duration(w.get("setup_s")), "")),
        "pid": Column("pid", 7, lambda w: (str(w.get("pid") or ""), "dim")),
        "note": Column("", _SHORTEST_NOTE, _note, right=False),
    }
    running = () if at_rest else ("age", "busy", "task", "median", "last")
    starting = any(w.get("status") == "initializing" for w in workers)
    importance = ["gpu", "status", "done", *(("setup",) if starting else ()), "failed", "timeouts"]
    importance += running or ("busy", "median")
    importance += ["util", "memory"] if readings and not at_rest else []
    importance += ["batch"] if any(w.get("batch_size") is not None for w in workers) else []
    importance += ["setup", "restarts", "note"] if at_rest else ["note", "setup", "restarts", "pid"]
    gap = 1 if width < _ROOMY else 2
    used = -gap
    taken: set[str] = set()
    for name in dict.fromkeys(importance):
        needed = gap + candidates[name].width
        if used + needed > width and taken:
            break
        taken.add(name)
        used += needed
    if "note" in taken:  # it stands last and takes what is left
        candidates["note"] = replace(candidates["note"], width=_SHORTEST_NOTE + width - used)
    return [column for name, column in candidates.items() if name in taken]


def _status(worker: Worker) -> Cell:
    status = str(worker.get("status"))
    return one_line(status), STATUS_STYLES.get(status, "")


def _short_status(worker: Worker) -> Cell:
    status = str(worker.get("status"))
    return _SHORT_STATUS.get(status, one_line(status)), STATUS_STYLES.get(status, "")


def _task(worker: Worker) -> Cell:
    task = worker.get("current_task")
    if task is not None:
        return str(task), ""
    return ("setup", "starting") if worker.get("status") == "initializing" else ("", "")


def _age(worker: Worker) -> Cell:
    """The running task's time against its limit; of a worker that is starting, how long that has taken."""
    age, limit = worker.get("current_age_s"), worker.get("task_timeout")
    if age is not None:
        text = f"{duration(age)}/{duration(limit)}" if limit else duration(age)
        return text, "warn" if near_limit(worker) else ""
    if worker.get("status") in ("initializing", "restarting"):
        return duration(worker.get("status_age_s")), "starting"
    return "", ""


def _number(key: str, style: str) -> Callable[[Worker], Cell]:
    def cell(worker: Worker) -> Cell:
        number = worker.get(key) or 0
        return short_count(number), style if number else "dim"

    return cell


def _utilisation(worker: Worker, readings: Mapping[Any, Any]) -> Cell:
    reading = readings.get(worker.get("worker_id")) or {}
    return percent(reading.get("utilisation")), ""


def _memory(worker: Worker, readings: Mapping[Any, Any]) -> Cell:
    reading = readings.get(worker.get("worker_id")) or {}
    used, total = reading.get("memory_used"), reading.get("memory_total")
    return ("–", "") if used is None or not total else (gigabytes(used, total), "warn" if used > 0.95 * total else "")


def _note(worker: Worker) -> Cell:
    status, error = worker.get("status"), worker.get("error")
    if status in ("error", "out of service", "restarting") and error:
        return last_words(error), "bad"
    if status == "initializing":
        return "running setup", "dim"
    if near_limit(worker):
        return "close to its time limit", "warn"
    return ("", "")
