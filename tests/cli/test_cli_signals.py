"""gpu-dispatch run, interrupted: the exit code is the signal's, and what was done is in the output."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest


@pytest.fixture
def endless(cli):
    (cli.folder / "n.txt").write_text("".join(f"{n}\n" for n in range(5000)))  # at 20 ms each
    return cli


def start_and_wait(cli, *words: str) -> subprocess.Popen[str]:
    process = cli.start("run", "workers.py:Slow", "n.txt", "-o", "out.jsonl", "--gpus", "cpu:2", *words)
    give_up_at = time.monotonic() + 30
    while not (cli.out.exists() and cli.out.stat().st_size > 500):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < give_up_at
        time.sleep(0.01)
    return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("ui", ["none", "plain", "tqdm", "rich"])
def test_what_was_done_is_in_the_output(endless, number, code, ui):
    process = start_and_wait(endless, "--ui", ui)
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert process.returncode == code, err
    records = endless.records()
    assert all(record["result"] == record["input"] for record in records)
    assert len({record["task_id"] for record in records}) == len(records) < 5000
    assert f"interrupted: {len(records)} done" in err
    assert "Traceback" not in err


def test_a_second_ctrl_c_ends_at_once(cli):
    (cli.folder / "stuck.py").write_text(
        "import time\ndef f(item):\n    if item != 'a': time.sleep(100)\n    return item"
    )
    (cli.folder / "n.txt").write_text("a\nb\nc\n")
    process = cli.start("run", "stuck.py:f", "n.txt", "-o", "out.jsonl", "--gpus", "cpu:2", "--drain-timeout", "60")
    give_up_at = time.monotonic() + 30
    while not cli.out.exists():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None, "it waits for the running tasks"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130, err
    assert cli.results() == ["a"]


def test_ctrl_c_while_nothing_has_come_yet(cli):
    """Typed at an empty pipe: there is no run to end in good order."""
    reading, writing = os.pipe()
    try:
        process = cli.start("run", "workers.py:shout", "-", "-o", "out.jsonl", "--gpus", "cpu:1", stdin=reading)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    finally:
        os.close(reading)
        os.close(writing)
    assert process.returncode == 130
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_input_that_neither_speaks_nor_ends_does_not_hold_us_up(cli, number):
    reading, writing = os.pipe()
    try:
        process = cli.start("run", "workers.py:shout", "-", "-o", "out.jsonl", "--gpus", "cpu:1", stdin=reading)
        os.write(writing, b"one\n")
        give_up_at = time.monotonic() + 30
        while not cli.out.exists():
            assert time.monotonic() < give_up_at
            time.sleep(0.01)
        process.send_signal(number)
        _, err = process.communicate(timeout=10)
    finally:
        os.close(reading)
        os.close(writing)
    assert process.returncode == 128 + number, err
    assert cli.results() == ["one!"]


def test_a_reader_that_leaves_ends_the_run(endless):
    process = endless.start("run", "workers.py:Slow", "n.txt", "--gpus", "cpu:2", "--ui", "none")
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    process.wait(timeout=20)
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    assert process.returncode == 1
    assert "Traceback" not in err
