"""``gpu-dispatch transcribe`` as its users run it: exit codes, signals, one-line errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sounds

SUPPORT = Path(__file__).parents[1] / "support"


class Command:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": str(SUPPORT), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}

    def words(self, *arguments: str) -> list[str]:
        given = [sys.executable, "-m", "gpu_dispatch", "transcribe", *arguments]
        for option, value in (
            ("--gpus", "cpu:1"),
            ("--engine", "parrot_engine:ParrotEngine"),
            ("--model-size", "parrot"),
        ):
            given += [] if option in arguments else [option, value]
        return given

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*arguments),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.words(*arguments),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def command(tmp_path):
    return Command(tmp_path)


@pytest.fixture
def clips(tmp_path):
    for number in range(4):
        sounds.write(tmp_path / "in" / f"{number}.wav", sounds.tone(1.0 + number))
    return tmp_path / "in"


def transcripts(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("**/*.json"))


def test_everything_went_well(command, clips):
    done = command("in", "-o", "out", "--no-vad", "--formats", "srt,vtt")

    assert done.returncode == 0, done.stderr
    assert "4 of 4 files transcribed" in done.stdout
    assert done.stderr.count("s of audio in") == 4
    assert sorted(p.suffix for p in (command.folder / "out").glob("0.*")) == [".json", ".srt", ".vtt"]


def test_a_machine_can_read_the_summary(command, clips):
    (clips / "bad.wav").touch()
    done = command("in", "-o", "out", "--no-vad", "--json")

    assert done.returncode == 1
    summary = json.loads(done.stdout)
    assert (summary["exit_code"], summary["completed"], summary["failed"]) == (1, 4, 1)
    assert summary["failures"] == [{"file": "bad.wav", "error": "the file is empty (0 bytes)"}]


def test_quiet_says_nothing(command, clips):
    done = command("in", "-o", "out", "--no-vad", "-q")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere", "-o", "out"], "does not exist"),
        (["in"], "-o/--output"),
        (["in", "-o", "out", "--pattern", "*.xyz"], "no file in in matches '*.xyz'"),
        (["in", "-o", "out", "--formats", "docx"], "unknown format 'docx'"),
        (["in", "-o", "out", "--gpus", "0,x"], "'x' is neither a number"),
        (["in", "-o", "out", "--language", "klingon"], "klingon"),
        (["in", "-o", "out", "--beam-size", "0"], "--beam-size"),
        (["in", "-o", "out", "--compute-type", "int4"], "int4"),
        (["in", "-o", "out", "--engine", "nothing"], "engine 'nothing'"),
        (["in", "-o", "out", "--engine", "faster-whisper", "--model-size", "base"], "HF_HUB_OFFLINE"),
        (["in", "-o", "out", "--engine", "faster-whisper", "--model-size", "bse"], "there is no model 'bse'"),
        (["in", "-o", "out", "--engine", "faster-whisper", "--model-size", "./m"], "no such folder"),
        (["in", "-o", "in/0.wav"], "in/0.wav"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(command, clips, arguments, says):
    done = command(*arguments)

    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.returncode == 2


def test_no_worker_that_can_start_is_one_line_and_exit_code_1(command, clips):
    done = command("in", "-o", "out", "--model-size", "broken")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "gpu-dispatch: error: no worker could start: this model cannot be loaded: it is broken"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ended_by_a_signal_what_is_done_stays_and_the_next_run_goes_on(command, clips, signum, code):
    slowly = ("in", "-o", "out", "--no-vad", "--model-size", "slow", "--batch-size", "1")
    running = command.start(*slowly, "--drain-timeout", "0.1")
    until(lambda: transcripts(command.folder / "out"))
    running.send_signal(signum)
    _, errors = running.communicate(timeout=30)

    assert running.returncode == code
    assert "run it again to go on" in errors
    done = transcripts(command.folder / "out")
    assert 1 <= len(done) < 4
    again = command(*slowly, "--json")
    summary = json.loads(again.stdout)
    assert (again.returncode, summary["skipped"], summary["completed"]) == (0, len(done), 4 - len(done))


def test_a_second_ctrl_c_ends_it_at_once(command, clips):
    with command.start("in", "-o", "out", "--no-vad", "--model-size", "endless", "--drain-timeout", "60") as running:
        until(lambda: (command.folder / "listening").exists())
        running.send_signal(signal.SIGINT)
        assert any("once more ends at once" in line for line in running.stderr)
        began = time.monotonic()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)

    assert running.returncode == 130
    assert time.monotonic() - began < 5.0


def test_killed_half_way_it_goes_on_where_it_was(command, clips):
    running = command.start("in", "-o", "out", "--no-vad", "--model-size", "slow", "--batch-size", "1")
    until(lambda: len(transcripts(command.folder / "out")) >= 2)
    running.kill()
    running.communicate(timeout=30)
    done = {name: (command.folder / "out" / name).stat().st_mtime_ns for name in transcripts(command.folder / "out")}

    again = command("in", "-o", "out", "--no-vad", "--model-size", "slow", "--batch-size", "1")

    assert again.returncode == 0
    assert len(transcripts(command.folder / "out")) == 4
    for name, written_at in done.items():
        assert (command.folder / "out" / name).stat().st_mtime_ns == written_at, "a finished file was done again"


def until(condition, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
