"""RichDispatcher on real workers, on real terminals (ptys), pipes and closed streams."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console
from tiny_terminal import TinyTerminal
from ui_workers import Echo

from gpu_dispatch import Dispatcher, UsageError
from gpu_dispatch.ui import RichDispatcher
from gpu_dispatch.ui.live_view import LiveView
from gpu_dispatch.ui.panels import layout

HERE = Path(__file__).parent
JOB = HERE / "pty_job.py"
KEYS = {"total", "completed", "failed", "timeouts", "setup_failures", "expected_total", "start_time", "end_time"}
GPU_KEYS = {"status", "current_task", "last_duration", "completed", "failed", "timeouts"}


def silent_console() -> Console:
    return Console(file=io.StringIO(), width=80)


@pytest.mark.parametrize("show_ui", [True, False])
def test_run_returns_the_statistics_with_and_without_a_view(show_ui: bool) -> None:
    dispatcher = RichDispatcher(Echo, [0, 3], show_ui=show_ui, console=silent_console())
    stats = dispatcher.run([1, 2, "raise", 3.0e-3, "crash", 5])
    assert set(stats) >= KEYS
    assert (stats["total"], stats["completed"], stats["failed"], stats["timeouts"]) == (6, 4, 2, 0)
    assert stats["expected_total"] == 6
    assert stats["start_time"] < stats["end_time"]
    assert set(stats["gpu_status"]) == {0, 3}
    for gpu in stats["gpu_status"].values():
        assert set(gpu) >= GPU_KEYS
    assert sum(gpu["completed"] for gpu in stats["gpu_status"].values()) == 4
    assert dispatcher.get_stats()["completed"] == 4


def test_callbacks_run_where_the_dispatcher_runs_them() -> None:
    threads: dict[str, set[int]] = {}

    def note(name: str) -> Callable[..., None]:
        return lambda *_: threads.setdefault(name, set()).add(threading.get_ident())

    RichDispatcher(Echo, [0], console=silent_console()).run(
        [1, "raise"], note("success"), on_error=note("error"), on_task_start=note("start"), on_exit=note("exit")
    )
    assert threads == {name: {threading.get_ident()} for name in ("success", "error", "start", "exit")}


def test_setup_arguments_and_options_are_handed_on() -> None:
    dispatcher = RichDispatcher(Echo, [0], 16, console=silent_console(), retries=1, max_restarts=3)
    stats = dispatcher.run(["raise"], total_tasks=1, model_path="x", base_seed=7, task_timeout=5.0)
    assert stats["retries"] == 1


def test_stream_and_astream_are_watched_too() -> None:
    console = silent_console()
    outcomes = list(RichDispatcher(Echo, [0], console=console).stream([1, 2, 3], ordered=True))
    assert [outcome.data for outcome in outcomes] == [1, 2, 3]  # type: ignore[union-attr]
    assert "finished" in console.file.getvalue()  # type: ignore[attr-defined]

    async def collect() -> list[int]:
        return [o.task_id async for o in RichDispatcher(Echo, [0], console=silent_console()).astream([1, 2])]

    assert sorted(asyncio.run(collect())) == [0, 1]


def test_a_stream_that_is_left_early_gives_the_screen_back() -> None:
    console = silent_console()
    stream = RichDispatcher(Echo, [0], console=console).stream(range(1000))
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert "after" in console.file.getvalue()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name == "gpu_dispatch-view"]


def test_a_second_run_begins_anew_and_a_mistake_shows_nothing() -> None:
    console = silent_console()
    dispatcher = RichDispatcher(Echo, [0], console=console, refresh_rate=100)
    with pytest.raises(UsageError, match="generator must be iterable"):
        dispatcher.run(5)  # type: ignore[arg-type]
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]
    dispatcher.run([1, 2, 3])
    first = console.file.getvalue()  # type: ignore[attr-defined]
    dispatcher.run([4])
    second = console.file.getvalue()[len(first) :]  # type: ignore[attr-defined]
    assert "3 tasks: 3 done" in first
    assert "1 task: 1 done" in second
    assert "3 done" not in second


def test_it_composes_a_dispatcher_and_is_none() -> None:
    assert not issubclass(RichDispatcher, Dispatcher)
    dispatcher = RichDispatcher(Echo, [4, 5], show_ui=False)
    for name in dir(Dispatcher):
        assert name.startswith("_") or hasattr(dispatcher, name), name
    assert dispatcher.worker_ids == (4, 5)
    with pytest.raises(AttributeError):
        dispatcher.no_such_thing  # noqa: B018


@pytest.mark.parametrize("rate", [0, -4, float("nan"), "fast"])
def test_a_refresh_rate_that_is_not_positive_is_a_value_error(rate: Any) -> None:
    with pytest.raises(ValueError, match="refresh_rate"):
        RichDispatcher(Echo, [0], refresh_rate=rate)


def test_without_rich_the_advice_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_dispatch.ui.rich_dispatcher.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'gpu-dispatch\[ui\]'"):
        RichDispatcher(Echo, [0])
    RichDispatcher(Echo, [0], show_ui=False)


def test_a_panel_that_raises_costs_the_view_and_not_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = TinyTerminal(80, 24)
    monkeypatch.setattr(layout, "overall", lambda *_: 1 / 0)
    console = Console(file=screen, force_terminal=True, width=80, height=24)  # type: ignore[arg-type]
    dispatcher = RichDispatcher(Echo, [0], console=console)
    with pytest.warns(RuntimeWarning, match="the run goes on: ZeroDivisionError") as caught:
        stats = dispatcher.run([0.01] * 20)
    assert len(caught) == 1
    assert stats["completed"] == 20
    assert screen.cursor_visible
    assert screen.wraps


def test_a_frame_of_a_real_run_takes_less_than_ten_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    costs: list[float] = []
    show = LiveView.show

    def measured(self: LiveView, stats: Any) -> None:
        begun = time.thread_time()
        show(self, stats)
        costs.append(time.thread_time() - begun)

    monkeypatch.setattr(LiveView, "show", measured)
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=40)
    RichDispatcher(Echo, [0, 1], console=console, refresh_rate=50).run(range(20_000))
    assert sorted(costs)[len(costs) // 2] < 0.010


# --- real terminals ----------------------------------------------------------------------------------------


class Terminal:
    """A program in a pty of a given size, and everything that came out of it."""

    def __init__(self, scenario: str, width: int, height: int, **environ: str) -> None:
        self.master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.settings = termios.tcgetattr(slave)
        self.slave = slave
        kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, str(JOB), scenario],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**kept, "TERM": "xterm-256color", "PYTHONUNBUFFERED": "1", **environ},
            start_new_session=True,
            # Its controlling terminal, so that a Ctrl-C typed into the master is a SIGINT.
            preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.text = ""
        self._undecoded = b""
        self._size = (width, height)

    def read_until(self, wanted: str, timeout_s: float = 30.0) -> None:
        deadline = time.monotonic() + timeout_s
        while wanted not in self.text:
            assert time.monotonic() < deadline, f"no {wanted!r} in {self.text[-3000:]!r}"
            self._read(0.2)

    def type_ctrl_c(self) -> None:
        """Between two frames: at a Ctrl-C the kernel throws away what the terminal has not read yet."""
        while not self.text.endswith("\x1b[?2026l"):
            self._read(1.0)
        os.write(self.master, b"\x03")

    def wait(self, timeout_s: float = 30.0) -> int:
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"did not end: {self.text[-3000:]!r}"
            self._read(0.1)
        while self._read(0.1):
            pass
        assert termios.tcgetattr(self.slave) == self.settings, "the terminal's settings were changed"
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:  # the test has failed
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(10)
        os.close(self.slave)
        os.close(self.master)

    @functools.cached_property
    def screen(self) -> TinyTerminal:
        """How it looks in the end; fails on any sequence that is not the region's own."""
        screen = TinyTerminal(*self._size)
        screen.write(self.text)
        return screen

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self.master], [], [], timeout_s)[0]:
            return False
        self._undecoded += os.read(self.master, 65536)
        try:
            self.text, self._undecoded = self.text + self._undecoded.decode(), b""
        except UnicodeDecodeError:  # the rest of the character comes with the next piece
            pass
        return True


OpenTerminal = Callable[..., Terminal]


@pytest.fixture
def open_terminal() -> Iterator[OpenTerminal]:
    with contextlib.ExitStack() as stack:
        yield lambda *args, **environ: stack.enter_context(contextlib.closing(Terminal(*args, **environ)))


def test_in_a_terminal_there_is_a_dashboard_then_a_summary(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal("short", 100, 30)
    assert terminal.wait() == 0
    assert "initializing" in terminal.text
    assert "running" in terminal.text
    lines = [*terminal.screen.history, *terminal.screen.screen()]
    told = sorted(line for line in lines if line.startswith("callback"))
    assert told == sorted(f"callback {i}" for i in range(0, 60, 10))
    summary = lines.index(next(line for line in lines if "gpu_dispatch: finished after" in line))
    assert "60 tasks: 60 done" in lines[summary + 1]
    assert lines[-2:] == ["end: 60 of 60, 0 failed", ""]
    assert not any("gpu_dispatch: running" in line for line in lines), "a piece of the dashboard stayed"
    assert terminal.screen.cursor_visible
    assert terminal.screen.wraps


@pytest.mark.parametrize("size", [(20, 10), (10, 4), (80, 24), (200, 60)], ids=str)
def test_a_terminal_of_any_size_stays_sane_under_hostile_output(
    size: tuple[int, int], open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal("noisy", *size)
    assert terminal.wait() == 0
    lines = [*terminal.screen.history, *terminal.screen.screen()]
    assert "end: 30 of 40, 10" in "".join(lines)
    assert not any("running" in line for line in lines)
    assert terminal.screen.cursor_visible


def test_worker_output_that_is_let_through_cannot_tear_the_screen(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal("noisy, let through", 80, 24)
    assert terminal.wait() == 0
    lines = [*terminal.screen.history, *terminal.screen.screen()]
    assert sum(line == "worker was here" for line in lines) == 10
    assert not any("gpu_dispatch: running" in line for line in lines)


@pytest.mark.parametrize(
    ("scenario", "last_line"),
    [
        ("tqdm", r"tasks: 100%\|█+\| 60/60 \["),
        ("rich bars", r"━+ 100% 60/60 "),
        ("plain", r"\[gpu_dispatch 0:00:0\d\] finished: 60 done, "),
    ],
)
def test_a_plain_dispatcher_with_bars_leaves_just_the_last_one(
    scenario: str, last_line: str, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal(scenario, 100, 30)
    assert terminal.wait() == 0
    lines = [line for line in (*terminal.screen.history, *terminal.screen.screen()) if line]
    assert re.match(last_line, lines[-2])
    assert lines[-1] == "end: 60 of 60, 0 failed"
    assert scenario == "plain" or "GPU 1" in terminal.text
    assert not any(line.startswith("GPU") for line in lines)
    if scenario == "rich bars":
        assert sum(line.startswith("callback") for line in lines) == 6


def test_no_colour_when_none_is_wanted(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal("short", 80, 24, NO_COLOR="1")
    assert terminal.wait() == 0
    assert "\x1b[1m" in terminal.text  # bold is no colour
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m|\x1b\[[0-9;]*9[0-7]m", terminal.text)


def test_a_dumb_terminal_gets_lines(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal("short", 80, 24, TERM="dumb")
    assert terminal.wait() == 0
    assert "\x1b" not in terminal.text
    assert "ready: GPU" in terminal.text


def test_ctrl_c_restores_the_terminal_shows_the_summary_and_leaves_no_child(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal("endless", 80, 24)
    terminal.read_until("processing")
    children = psutil.Process(terminal.process.pid).children(recursive=True)
    assert len(children) == 2
    terminal.type_ctrl_c()
    code = terminal.wait()
    assert code in (-signal.SIGINT, 130)
    assert not [child for child in children if child.is_running()]
    lines = [*terminal.screen.history, *terminal.screen.screen()]
    assert any("gpu_dispatch: interrupted after" in line for line in lines)
    assert any(re.search(r"tasks: \d+ done", line) for line in lines)
    assert any("KeyboardInterrupt" in line for line in lines)
    assert not any("gpu_dispatch: running" in line or "gpu_dispatch: draining" in line for line in lines)
    assert terminal.screen.cursor_visible
    assert terminal.screen.wraps


def test_a_second_ctrl_c_restores_the_terminal_too(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal("endless", 80, 24)
    terminal.read_until("processing")
    terminal.type_ctrl_c()
    time.sleep(0.02)
    os.write(terminal.master, b"\x03")
    assert terminal.wait() != 0
    assert terminal.text.rindex("\x1b[?25h") > terminal.text.rindex("\x1b[?25l")
    assert terminal.text.rindex("\x1b[?7h") > terminal.text.rindex("\x1b[?7l")


def run_job(scenario: str, tmp_path: Path, shell: str) -> tuple[str, subprocess.CompletedProcess[str]]:
    """The job under a shell that does something to its streams; what it wrote to its marker file at the end."""
    marker = tmp_path / "marker"
    done = subprocess.run(
        ["bash", "-c", shell.replace("JOB", f"{sys.executable} {JOB} '{scenario}'")],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "MARKER": str(marker)},
        check=False,
    )
    return marker.read_text() if marker.exists() else "", done


@pytest.mark.parametrize("shell", ["JOB >&-", "JOB >&- 2>&-", "JOB <&- >&- 2>&-", "JOB | head -n 1", "JOB > /dev/full"])
def test_a_closed_or_full_stdout_costs_the_view_and_not_the_run(shell: str, tmp_path: Path) -> None:
    ending, done = run_job("silent", tmp_path, shell)
    assert ending == "end: 60 of 60, 0 failed", done.stderr


def test_a_pipe_gets_plain_lines_and_the_summary(tmp_path: Path) -> None:
    ending, done = run_job("noisy", tmp_path, "JOB | cat")
    assert ending == "end: 30 of 40, 10 failed"
    assert "\x1b" not in done.stdout
    assert re.search(r"^\[gpu_dispatch 0:00:0\d\] ready: GPU", done.stdout, re.MULTILINE)
    assert "40 tasks: 30 done, 10 failed" in done.stdout
    assert "10× ValueError: bad [red]row[/red]" in done.stdout
    assert done.stderr == ""


def test_without_a_view_nothing_is_written(tmp_path: Path) -> None:
    ending, done = run_job("blind", tmp_path, "JOB")
    assert ending == "end: 20 of 20, 0 failed"
    assert done.stdout + done.stderr == ""


def test_start_up_shows_each_workers_setup_with_its_time(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal("short", 120, 30)
    assert terminal.wait() == 0
    text = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", terminal.text)
    assert re.search(r"initializing\s+setup\s+\d+ms", text), "while it runs"
    assert re.search(r"finished .* (?:[6-9]\d\dms|\d\.\ds)", text), "and afterwards"


def test_the_demo_command_works_when_piped(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpu_dispatch", "demo", "--tasks", "120", "--gpus", "2", "--speed", "4"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "120 tasks: 116 done, 3 failed (1 crashed), 1 timed out" in done.stdout
    assert "ValueError: cannot identify image file" in done.stdout
    assert list(tmp_path.iterdir()) == []
