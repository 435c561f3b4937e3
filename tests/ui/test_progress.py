"""Bars for the plain Dispatcher: ``progress="tqdm" | "rich" | "plain" | None``."""

from __future__ import annotations

import io
import re
import sys
import threading

import pytest
from snapshots import snapshot, worker

from gpu_dispatch.errors import UsageError
from gpu_dispatch.ui import progress
from gpu_dispatch.ui.progress import NoProgress, start_progress
from gpu_dispatch.ui.tqdm_view import TqdmView


class Screen(io.StringIO):
    """A terminal that only remembers."""

    def isatty(self) -> bool:
        return True


FINISHED = snapshot(state="finished", completed=9_984, pending=0, gpu_status={0: worker(0), 1: worker(1)})


def test_tqdm_has_a_bar_for_the_run_and_one_per_gpu_below_it() -> None:
    screen = Screen()
    view = TqdmView(screen)
    view.open()
    view.show(snapshot(workers=2))
    text = screen.getvalue()
    assert re.search(r"tasks:  61%\|.*6136/10000", text)
    assert "failed=12, timed_out=4, restarts=1" in text
    assert re.search(r"\n\r?GPU 0: 1514 \[", text)
    assert re.search(r"\n\n\r?GPU 1: 1515 \[", text)
    view.close(FINISHED)
    assert re.search(r"tasks: 100%\|.*10000/10000", screen.getvalue())


def test_tqdm_in_a_log_file_is_one_bar_now_and_then() -> None:
    log = io.StringIO()
    view = TqdmView(log)
    view.open()
    for done in range(1000):
        view.show(snapshot(completed=done))
    view.close(FINISHED)
    assert "GPU" not in log.getvalue()
    assert log.getvalue().count("\r") < 6
    assert "10000/10000" in log.getvalue()


def test_tqdm_without_a_known_length_counts() -> None:
    screen = Screen()
    view = TqdmView(screen)
    view.open()
    view.show(snapshot(expected_total=None))
    view.close(None)
    assert "tasks: 6136task" in screen.getvalue()


def test_no_thread_outlives_the_bars() -> None:
    before = set(threading.enumerate())
    for kind in ("tqdm", "rich", "plain", None):
        for stream in (Screen(), io.StringIO()):
            start_progress(kind, lambda: FINISHED, stream=stream).close()
    assert set(threading.enumerate()) == before


def test_rich_bars_leave_the_last_one_on_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    start_progress("rich", lambda: FINISHED, stream=screen).close()
    text = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", screen.getvalue())
    assert text.rstrip().endswith("100% 10,000/10,000 76.0/s 16 failed")
    assert "GPU 1 ━━━━━━━━━─ busy  97%  1,511 done  processing 210ms" in text
    assert screen.getvalue().count("\x1b[?25l") == screen.getvalue().count("\x1b[?25h") == 1


@pytest.mark.parametrize("kind", ["rich", "plain"])
def test_lines_where_there_is_no_terminal(kind: str) -> None:
    log = io.StringIO()
    start_progress(kind, lambda: FINISHED, stream=log).close()
    assert log.getvalue().splitlines()[-1].startswith("[gpu_dispatch 0:01:23] finished: 9,984 done")
    assert "\x1b" not in log.getvalue()


def test_bars_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    start_progress("plain", lambda: FINISHED).close()
    out, err = capsys.readouterr()
    assert out == ""
    assert "9,984 done" in err


def test_a_closed_stderr_shows_nothing_and_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", None)
        for kind in ("tqdm", "rich", "plain"):
            assert isinstance(start_progress(kind, lambda: FINISHED), NoProgress)


def test_no_progress_does_nothing() -> None:
    assert isinstance(start_progress(None, lambda: 1 / 0), NoProgress)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="'tqdm', 'rich', 'plain' or None, got 'fancy'"):
        start_progress("fancy", lambda: FINISHED)


@pytest.mark.parametrize(
    ("kind", "advice"), [("tqdm", "pip install tqdm"), ("rich", r"pip install 'gpu-dispatch\[ui\]'")]
)
def test_a_missing_package_is_named_with_what_to_install(
    kind: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=advice):
        start_progress(kind, lambda: FINISHED)


def test_plain_lines_need_neither_rich_nor_tqdm() -> None:
    import subprocess

    code = "import sys, gpu_dispatch.ui.progress; print(sorted({'rich', 'tqdm'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
