"""Lines for pipes and logs: enough to follow a run, too few to fill a disk."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console
from snapshots import snapshot, worker

from gpu_dispatch.ui.choose import plain_dashboard
from gpu_dispatch.ui.plain_view import PlainView


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def shown_over_time(steps: list[tuple[float, dict[str, Any]]]) -> list[str]:
    clock, stream = Clock(), io.StringIO()
    view = PlainView(stream, now=clock)
    view.open()
    for at, stats in steps:
        clock.now = at
        view.show({**stats, "elapsed_s": at})
    return stream.getvalue().splitlines()


def test_a_line_every_five_seconds_while_things_change() -> None:
    ready = {0: worker(0, setup_s=None)}
    lines = shown_over_time([(t / 4, snapshot(completed=t, gpu_status=ready)) for t in range(4 * 21)])
    assert [line.split("]")[0] for line in lines] == [f"[gpu_dispatch 0:00:{s:02d}" for s in (0, 5, 10, 15, 20)]
    assert lines[1] == (
        "[gpu_dispatch 0:00:05] running: 36/10,000 (0%), 20 done, 12 failed (1 crashed), 4 timed out, 76.0/s, "
        "ETA 0:00:51; 1 processing"
    )


def test_a_line_every_half_minute_while_nothing_changes() -> None:
    loading = snapshot(gpu_status={0: worker(0, setup_s=None, status="initializing", status_age_s=33.0)}, eta_s=None)
    lines = shown_over_time([(t, loading) for t in range(100)])
    assert len(lines) == 4
    assert lines[1].endswith("1 initializing for 33s")


def test_workers_that_become_ready_or_fail_are_told_at_once() -> None:
    starting = snapshot(gpu_status={0: worker(0, setup_s=None), 1: worker(1, setup_s=None)})
    started = snapshot(gpu_status={0: worker(0), 1: worker(1, setup_s=2.5)})
    died = snapshot(gpu_status={0: worker(0, status="restarting", error="killed by SIGKILL\nmore"), 1: worker(1)})
    lines = shown_over_time([(0.0, starting), (1.0, started), (2.0, died), (2.1, died), (3.5, died)])
    assert lines[1:] == [
        "[gpu_dispatch 0:00:01] ready: GPU 0 (setup 1.6s), GPU 1 (setup 2.5s)",
        "[gpu_dispatch 0:00:02] ready: GPU 1 (setup 1.6s)",
        "[gpu_dispatch 0:00:02] GPU 0 restarting: killed by SIGKILL",
    ]


def test_a_new_state_is_told_at_once() -> None:
    lines = shown_over_time([(0, snapshot(state="new")), (1, snapshot()), (2, snapshot(state="draining"))])
    assert [line.split("] ")[1].split(":")[0] for line in lines if "ready" not in line] == ["running", "draining"]


def test_one_sentence_at_the_end() -> None:
    stream = io.StringIO()
    PlainView(stream).close(snapshot(state="finished", pending=0, log_dir="logs"))
    assert stream.getvalue() == (
        "[gpu_dispatch 0:01:23] finished: 6,120 done, 12 failed (1 crashed), 4 timed out, 73.5/s; worker logs: logs\n"
    )


def test_the_dashboards_plain_form_ends_with_the_whole_summary() -> None:
    stream = io.StringIO()
    plain_dashboard(Console(file=stream, width=80)).close(snapshot(state="finished"))
    text = stream.getvalue()
    assert "gpu_dispatch: finished after 0:01:23" in text
    assert "slowest tasks" in text
    assert "\x1b" not in text


def test_a_stream_that_knows_only_ascii_gets_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    view = plain_dashboard(Console(file=stream, width=80))
    sick = {0: worker(0, status="error", error="kaputt: größer", setup_s=None)}
    view.show(snapshot(gpu_status=sick))
    view.close(snapshot(gpu_status=sick, errors=[{"cause": "größer", "count": 2, "last_task": 1, "example": ""}]))
    stream.flush()
    assert b"kaputt: gr??er" in raw.getvalue()
