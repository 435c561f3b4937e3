"""The JSONL file: whole lines only, and nothing of the user's is lost."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading

import pytest

from gpu_dispatch.cli.output import JsonLines
from gpu_dispatch.errors import UsageError


def lines(path) -> list[object]:
    text = path.read_text()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def test_each_line_is_there_as_soon_as_it_is_written(tmp_path):
    path = tmp_path / "out.jsonl"
    with JsonLines(str(path)) as output:
        for n in range(3):
            output.write({"n": n})
            assert lines(path) == [{"n": i} for i in range(n + 1)]


def test_an_existing_file_is_not_overwritten_unasked(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("precious\n")
    with pytest.raises(UsageError, match="exists already; give --append or --overwrite"):
        JsonLines(str(path))
    assert path.read_text() == "precious\n"


def test_an_old_result_survives_a_run_that_produces_nothing(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("precious\n")
    JsonLines(str(path), overwrite=True).close()
    assert path.read_text() == "precious\n"
    JsonLines(str(tmp_path / "new.jsonl")).close()
    assert not (tmp_path / "new.jsonl").exists()


def test_overwrite_replaces_everything(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("a\n" * 100)
    with JsonLines(str(path), overwrite=True) as output:
        output.write({"n": 1})
    assert lines(path) == [{"n": 1}]


def test_a_file_that_another_run_began_meanwhile_is_left_alone(tmp_path):
    path = tmp_path / "out.jsonl"
    output = JsonLines(str(path))
    path.write_text("another run's\n")
    with pytest.raises(UsageError, match="exists already"):
        output.write({"n": 1})
    assert path.read_text() == "another run's\n"


@pytest.mark.parametrize(
    ("before", "after", "dropped"),
    [
        ('{"n": 0}\n', '{"n": 0}\n', False),
        ('{"n": 0}', '{"n": 0}\n', False),
        ('{"n": 0}\n{"n": 1, "resu', '{"n": 0}\n', True),
        ('{"n": "' + "x" * 200_000, "", True),
        ("", "", False),
    ],
)
def test_append_goes_on_after_the_last_whole_line(tmp_path, before, after, dropped):
    path = tmp_path / "out.jsonl"
    path.write_text(before)
    with JsonLines(str(path), append=True) as output:
        output.write({"n": 9})
        assert output.dropped_half_line is dropped
    assert path.read_text() == after + '{"n": 9}\n'


def test_append_to_nothing_begins_a_file(tmp_path):
    with JsonLines(str(tmp_path / "out.jsonl"), append=True) as output:
        output.write({"n": 1})
    assert lines(tmp_path / "out.jsonl") == [{"n": 1}]


def test_an_empty_or_special_file_has_nothing_to_lose(tmp_path):
    (tmp_path / "empty").touch()
    for path in (str(tmp_path / "empty"), os.devnull):
        with JsonLines(path) as output:
            output.write({"n": 1})
    assert lines(tmp_path / "empty") == [{"n": 1}]


@pytest.mark.parametrize(
    ("name", "said"),
    [("", "is a folder"), ("no/such/out.jsonl", "there is no folder"), ("file/out", "there is no folder")],
)
def test_a_place_that_cannot_be_written_is_told_before_the_run(tmp_path, name, said):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=said):
        JsonLines(str(tmp_path / name))


def test_a_full_disk_leaves_whole_lines(tmp_path):
    path = tmp_path / "out.jsonl"
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with JsonLines(str(path)) as output:
            output.write({"n": 1})
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
            with pytest.raises(OSError, match=r"File too large.*out\.jsonl"):
                output.write({"text": "x" * 1000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert lines(path) == [{"n": 1}]


def test_threads_do_not_mix_their_lines(tmp_path):
    path = tmp_path / "out.jsonl"
    with JsonLines(str(path)) as output:
        writers = [
            threading.Thread(target=lambda k=k: [output.write({"k": k, "text": "x" * 5000}) for _ in range(50)])
            for k in range(4)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    assert len(lines(path)) == 200


def test_only_results_reach_stdout_whatever_is_printed_beside():
    code = """
import os, sys
from gpu_dispatch.cli.output import JsonLines
print("before")
with JsonLines("-") as output:
    print("from python"); os.system("echo from a child")
    output.write({"n": 1})
    print("again")
print("after")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == 'before\n{"n": 1}\nafter\n'
    assert sorted(done.stderr.splitlines()) == ["again", "from a child", "from python"]
