"""--ui: which view is chosen, and that each shows the run without touching the results."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import termios
import threading

import pytest

from gpu_dispatch.cli import views
from gpu_dispatch.cli.views import choose_ui
from gpu_dispatch.errors import UsageError

CURSOR_SHOWN, CURSOR_HIDDEN = "\x1b[?25h", "\x1b[?25l"


def on_a_terminal(cli, *words: str, stdout_too: bool = False, **environment: str) -> tuple[int, str, str]:
    """Run with stderr (and, if asked, stdout) on a terminal: exit code, stdout, what the terminal got."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(
        cli.words(*words),
        stdin=subprocess.DEVNULL,
        stdout=slave if stdout_too else subprocess.PIPE,
        stderr=slave,
        text=True,
        cwd=cli.folder,
        env=cli.environment(**environment),
    )
    os.close(slave)
    seen: list[bytes] = []

    def read_on() -> None:
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:  # how a terminal says that nobody has it open any more
                return
            if not data:
                return
            seen.append(data)

    reader = threading.Thread(target=read_on)
    reader.start()
    out, _ = process.communicate(timeout=60)
    reader.join(timeout=10)
    os.close(master)
    return process.returncode, out or "", b"".join(seen).decode()


@pytest.fixture
def forty(cli):
    (cli.folder / "n.txt").write_text("".join(f"{n}\n" for n in range(40)))
    return cli


RUN = ("run", "workers.py:Slow", "n.txt", "--gpus", "cpu:2")


@pytest.mark.parametrize("ui", ["rich", "tqdm", "plain", "none"])
def test_every_view_on_a_terminal_and_the_results_beside_it(forty, ui):
    code, out, screen = on_a_terminal(forty, *RUN, "-o", "out.jsonl", "--ui", ui)
    assert (code, out) == (0, "")
    assert forty.results() == [str(n) for n in range(40)]
    assert screen.count(CURSOR_SHOWN) >= screen.count(CURSOR_HIDDEN), "the cursor is given back"
    if ui == "none":
        assert screen == ""
    else:
        assert "40 done" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen)


@pytest.mark.parametrize("ui", ["rich", "tqdm", "plain", "none"])
def test_every_view_in_a_pipe_writes_no_escape_codes(forty, ui):
    done = forty.run(*RUN, "-o", "-", "--ui", ui)
    assert done.returncode == 0
    assert forty.results(done.stdout) == [str(n) for n in range(40)]
    assert "\x1b" not in done.stderr
    assert (done.stderr == "") == (ui == "none")


def test_the_dashboard_comes_by_itself_on_a_terminal(forty):
    _, _, screen = on_a_terminal(forty, *RUN, "-o", "out.jsonl")
    assert CURSOR_HIDDEN in screen
    _, _, screen = on_a_terminal(forty, *RUN, "-o", "dumb.jsonl", TERM="dumb")
    assert "\x1b" not in screen
    assert "40 done" in screen


def test_results_on_the_terminal_are_not_drawn_over(forty):
    code, _, screen = on_a_terminal(forty, *RUN, stdout_too=True)
    assert code == 0
    assert forty.results(screen.replace("\r\n", "\n")) == [str(n) for n in range(40)]
    code, _, screen = on_a_terminal(forty, *RUN, "--ui", "rich", stdout_too=True)
    assert code == 2
    assert "give -o FILE" in screen


def test_a_view_whose_package_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setattr(views, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"--ui rich needs the package rich: pip install 'gpu-dispatch\[ui\]'"):
        choose_ui("rich", results_on_terminal=False)
    with pytest.raises(UsageError, match="pip install tqdm"):
        choose_ui("tqdm", results_on_terminal=False)
    monkeypatch.setattr(views, "_draws", lambda fd: True)
    assert choose_ui(None, results_on_terminal=False) == "plain"
