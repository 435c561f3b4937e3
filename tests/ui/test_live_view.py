"""The live view on a terminal: the dashboard stays in place, what the program prints scrolls by, all is restored."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import Callable, Iterator

import pytest
from rich.console import Console
from snapshots import snapshot
from tiny_terminal import TinyTerminal

from gpu_dispatch.ui.choose import choose_view
from gpu_dispatch.ui.live_view import LiveView
from gpu_dispatch.ui.panels.layout import dashboard
from gpu_dispatch.ui.panels.summary import summary
from gpu_dispatch.ui.plain_view import PlainView


class Cooked(TinyTerminal):
    """In cooked mode: a newline returns the carriage."""

    def write(self, text: str) -> int:
        return super().write(text.replace("\r\n", "\n").replace("\n", "\r\n"))


@pytest.fixture(autouse=True)
def _colour_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


@contextlib.contextmanager
def terminal_as_stdout() -> Iterator[TinyTerminal]:
    """Within the test's body, because pytest puts its own streams there between a fixture and the test."""
    terminal = Cooked(80, 24)
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):  # type: ignore[type-var]
        yield terminal
        assert sys.stdout is terminal
        assert sys.stderr is terminal
    assert terminal.cursor_visible
    assert terminal.wraps


def on_terminal(test: Callable[[TinyTerminal], None]) -> Callable[[], None]:
    def wrapper() -> None:
        with terminal_as_stdout() as terminal:
            test(terminal)

    wrapper.__name__ = test.__name__
    return wrapper


def view_on(terminal: TinyTerminal, console: Console | None = None) -> LiveView:
    console = console or Console(width=terminal.width, height=terminal.height, color_system="truecolor")
    assert console.is_interactive
    return LiveView(console, dashboard, summary)


@on_terminal
def test_the_summary_stays_and_the_dashboard_goes(terminal: TinyTerminal) -> None:
    print("before")
    view = view_on(terminal)
    view.open()
    view.show(snapshot())
    shown = dashboard(snapshot(), 80, 23).text().split("\n")
    assert terminal.screen() == ["before", *shown]
    view.close(snapshot(state="finished"))
    everything = [*terminal.history, *terminal.screen()]
    assert everything == ["before", *summary(snapshot(state="finished"), 80).text().split("\n"), ""]


@on_terminal
def test_what_callbacks_print_log_and_warn_scrolls_by_above(terminal: TinyTerminal) -> None:
    handler = logging.StreamHandler()  # made before the run, as programs do: it holds the terminal itself
    logger = logging.getLogger("some.library")
    logger.addHandler(handler)
    try:
        console = Console(width=80, height=24)
        view = view_on(terminal, console)
        view.open()
        view.show(snapshot())
        print("printed")
        logger.warning("logged")
        console.print("through the same console")
        sys.stderr.write("half a ")
        view.show(snapshot())
        sys.stderr.write("line\n")
        view.show(snapshot())
        assert [*terminal.history, *terminal.screen()][:4] == [
            "printed", "logged", "through the same console", "half a line",
        ]  # fmt: skip
        print("unfinished", end="")
        view.close(None)
        assert "unfinished" in terminal.screen()
        assert handler.stream is terminal
    finally:
        logger.removeHandler(handler)


@on_terminal
def test_printing_does_not_draw_a_frame_each_time(terminal: TinyTerminal) -> None:
    view = view_on(terminal)
    view.open()
    view.show(snapshot())
    before = terminal.writes
    for number in range(1000):
        print(number)
    assert terminal.writes == before
    view.show(snapshot())
    assert terminal.writes == before + 1
    view.close(None)
    assert [line for line in [*terminal.history, *terminal.screen()] if line.isdigit()] == [str(n) for n in range(1000)]


def test_a_flood_of_printing_is_not_kept_in_memory() -> None:
    class Counting(Cooked):
        def write(self, text: str) -> int:
            self.writes += 1
            return len(text)

    terminal = Counting(80, 24)
    with contextlib.redirect_stdout(terminal):  # type: ignore[type-var]
        view = view_on(terminal)
        view.open()
        view.show(snapshot())
        before = terminal.writes
        for _ in range(5):
            print("x" * 70 + "\n" + "y" * 200_000)
        assert before < terminal.writes <= before + 5
        print("without an end " * 100_000, end="")
        drawn = terminal.writes
        print("more", end="")
        assert terminal.writes == drawn
        view.close(None)


@on_terminal
def test_a_progress_bar_of_the_program_itself_does_not_pile_up(terminal: TinyTerminal) -> None:
    view = view_on(terminal)
    view.open()
    for share in range(101):
        sys.stderr.write(f"\r{share:3}%|")
        view.show(snapshot())
    view.close(None)
    assert [line for line in [*terminal.history, *terminal.screen()] if "%|" in line] == ["100%|"]


@on_terminal
def test_a_stream_that_somebody_kept_works_after_the_run(terminal: TinyTerminal) -> None:
    view = view_on(terminal)
    view.open()
    kept = sys.stdout
    view.close(None)
    kept.write("still here\n")
    kept.flush()
    assert terminal.screen() == ["still here", ""]


@on_terminal
def test_a_file_that_stdout_was_redirected_to_gets_only_what_the_program_prints(terminal: TinyTerminal) -> None:
    results = io.StringIO()
    with contextlib.redirect_stdout(results):
        view = view_on(terminal, Console(file=terminal, width=80, height=24))  # type: ignore[arg-type]
        view.open()
        view.show(snapshot())
        print("a result")
        assert results.getvalue() == "a result\n"
        view.close(None)


@on_terminal
def test_a_resize_leaves_no_piece_of_the_old_frame(terminal: TinyTerminal) -> None:
    console = Console(width=80, height=24)
    view = view_on(terminal, console)
    view.open()
    view.show(snapshot())
    terminal.resize(50, 24)
    console.size = (50, 24)  # type: ignore[assignment]
    view.show(snapshot())
    assert terminal.screen() == dashboard(snapshot(), 50, 23).text().split("\n")
    terminal.resize(120, 40)
    console.size = (120, 40)  # type: ignore[assignment]
    view.show(snapshot())
    assert terminal.screen() == dashboard(snapshot(), 120, 39).text().split("\n")
    view.close(None)


@pytest.mark.parametrize(
    ("environ", "kind"), [({}, LiveView), ({"TERM": "dumb"}, PlainView), ({"NO_COLOR": "1"}, LiveView)]
)
def test_the_view_fits_the_terminal(environ: dict[str, str], kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with terminal_as_stdout():
        assert type(choose_view(None)) is kind


def test_a_pipe_gets_lines_even_when_colours_are_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with contextlib.redirect_stdout(io.StringIO()):
        assert isinstance(choose_view(None), PlainView)
