"""INPUT…: which items come out of what was named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc

import pyarrow as pa
import pytest
from pyarrow import parquet

from gpu_dispatch.cli.inputs import find_sources, peek
from gpu_dispatch.cli.readers import BadRow, take_field
from gpu_dispatch.errors import UsageError

ROWS = [{"id": "1", "text": "één"}, {"id": "2", "text": "two"}]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with one file of every kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d" / "deep").mkdir(parents=True)
    (tmp_path / "d" / ".hidden").mkdir()
    for name in (
        "d/b.wav",
        "d/a.wav",
        "d/deep/c.wav",
        "d/notes.txt",
        "d/.secret",
        "d/.hidden/x.wav",
        "one.wav",
        "w[1].wav",
    ):
        (tmp_path / name).write_text("first\n\nsecond\n")
    (tmp_path / "d" / "rows.jsonl").write_text('{"id": 7}\n')
    (tmp_path / "lines.txt").write_bytes(b"\xef\xbb\xbfa\r\n  \n b \nlast")
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)) + "\n\n")
    (tmp_path / "rows.csv").write_text("id,text\r\n1,één\r\n\r\n2,two\r\n")
    (tmp_path / "rows.tsv").write_text("id\ttext\n1\téén\n2\ttwo")
    (tmp_path / "rows.ndjson").write_text('"a string"\n[1, 2]\n')
    parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    (tmp_path / "empty.jsonl").touch()
    return tmp_path


IN_FOLDER = ["d/a.wav", "d/b.wav", "d/deep/c.wav", "d/notes.txt", "d/rows.jsonl"]


@pytest.mark.parametrize(
    ("words", "as_", "expected"),
    [
        (["one.wav"], "auto", ["one.wav"]),
        (["./one.wav", "d/a.wav"], "auto", ["./one.wav", "d/a.wav"]),
        (["lines.txt"], "auto", ["a", " b ", "last"]),
        (["lines.txt"], "paths", ["lines.txt"]),
        (["rows.jsonl"], "auto", ROWS),
        (["rows.csv"], "auto", ROWS),
        (["rows.tsv"], "auto", ROWS),
        (["rows.parquet"], "auto", ROWS),
        (["rows.ndjson"], "auto", ["a string", [1, 2]]),
        (["rows.jsonl"], "paths", ["rows.jsonl"]),
        (["rows.csv"], "lines", ["id,text", "1,één", "2,two"]),
        (["one.wav"], "lines", ["first", "second"]),
        (["rows.parquet", "rows.csv", "one.wav"], "auto", [*ROWS, *ROWS, "one.wav"]),
        (["d"], "auto", IN_FOLDER),
        (["d/"], "paths", IN_FOLDER),
        (["d"], "rows", [{"id": 7}]),
        (["d/deep"], "lines", ["first", "second"]),
        (["d/*.wav"], "auto", ["d/a.wav", "d/b.wav"]),
        (["d/**/*.wav"], "auto", ["d/a.wav", "d/b.wav", "d/deep/c.wav"]),
        (["d/**"], "paths", IN_FOLDER),
        (["*.jsonl"], "auto", ROWS),
        (["w[1].wav"], "auto", ["w[1].wav"]),
        (["d/?.wav", "one.wav"], "auto", ["d/a.wav", "d/b.wav", "one.wav"]),
    ],
)
def test_items(place, words, as_, expected):
    inputs = find_sources(words, as_)
    assert list(inputs.items()) == expected
    assert inputs.count() in (None, len(expected))


@pytest.mark.parametrize(
    ("words", "as_", "count"),
    [
        (["d"], "auto", 5),
        (["d/*.wav", "one.wav"], "auto", 3),
        (["rows.parquet", "rows.csv", "lines.txt"], "auto", 7),
        (["d/*.jsonl"], "auto", None),
        (["-"], "auto", None),
        (["d"], "rows", None),
    ],
)
def test_a_total_is_known_where_it_costs_little(place, words, as_, count):
    assert find_sources(words, as_).count() == count


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["absent.wav"], "there is no file or folder absent.wav"),
        (["d/*.mp3"], "no file matches d/*.mp3"),
        (["https://x/y.wav"], "give them as lines"),
        (["-", "-"], "only once"),
        (["rows.jsonl", "out.jsonl"], "both an input and the output"),
        (["fake.parquet"], "cannot be read as Parquet"),
    ],
)
def test_a_word_that_names_nothing_is_told_before_the_run(place, words, said):
    (place / "out.jsonl").write_text("{}\n")
    (place / "fake.parquet").write_text("no")
    with pytest.raises(UsageError) as caught:
        find_sources(words, output="./out.jsonl")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_output_is_never_an_item_of_its_own_run(place):
    (place / "d" / "out.jsonl").write_text("{}\n")
    assert list(find_sources(["d"], output="d/out.jsonl").items()) == IN_FOLDER
    assert list(find_sources(["d/*.jsonl"], output=str(place / "d" / "out.jsonl")).items()) == [{"id": 7}]
    assert find_sources(["d"], output="d/out.jsonl").count() == 5


def test_a_folder_that_links_to_itself_ends(place):
    (place / "d" / "deep" / "loop").symlink_to(place / "d")
    (place / "d" / "linked").symlink_to(place / "elsewhere")
    (place / "elsewhere").mkdir()
    (place / "elsewhere" / "z.wav").touch()
    items = list(find_sources(["d"]).items())
    assert "d/linked/z.wav" in items
    assert len(items) == 6


def test_an_empty_input_is_told(place):
    with pytest.raises(UsageError, match="the input is empty"):
        peek(find_sources(["empty.jsonl"]).items())


def test_peeking_loses_nothing(place):
    assert list(peek(find_sources(["rows.csv"]).items())) == ROWS


@pytest.mark.parametrize(
    ("name", "content", "good", "bad"),
    [
        ("x.jsonl", b'{"a": 1}\n{"a": \n{"a": 3}\n', [{"a": 1}, {"a": 3}], ["x.jsonl, line 2"]),
        ("x.jsonl", b'1\n"\xff"\n3\n', [1, 3], ["x.jsonl, line 2"]),
        ("x.csv", b"a,b\n1,2\n1,2,3\n4,5\n", [{"a": "1", "b": "2"}, {"a": "4", "b": "5"}], ["x.csv, line 3"]),
        ("x.csv", b"a,b\n1,2\n\xff,2\n4,5\n", [{"a": "1", "b": "2"}, {"a": "4", "b": "5"}], ["x.csv, line 3"]),
        ("x.csv", b"a,b\n1\n", [{"a": "1", "b": None}], []),
        ("x.csv", b"a,a\n1,2\n", [], ["x.csv"]),
        ("x.csv", b'a,b\n"1\n2",3\n', [{"a": "1\n2", "b": "3"}], []),
        ("x.csv", b"\xef\xbb\xbfa\n" + b"x" * 300_000, [{"a": "x" * 300_000}], []),
        ("x.txt", b"a\n\xff\n", ["a", "\udcff"], []),
    ],
)
def test_one_bad_row_does_not_cost_the_others(place, name, content, good, bad):
    (place / name).write_bytes(content)
    items = list(find_sources([name]).items())
    assert [item for item in items if not isinstance(item, BadRow)] == good
    assert [item.source for item in items if isinstance(item, BadRow)] == bad


def test_a_file_that_vanishes_costs_only_itself(place):
    inputs = find_sources(["rows.jsonl", "rows.csv"])
    os.remove("rows.jsonl")
    bad, *rest = inputs.items()
    assert (bad.source, bad.reason) == ("rows.jsonl", "No such file or directory")
    assert rest == ROWS


def test_a_bad_first_row_is_a_usage_error_that_says_where(place):
    (place / "x.jsonl").write_text("nonsense\n")
    with pytest.raises(UsageError, match=r"x\.jsonl, line 1: not JSON"):
        peek(find_sources(["x.jsonl"]).items())


def test_one_field_of_each_row(place):
    assert list(take_field(find_sources(["rows.csv"]).items(), "text")) == ["één", "two"]
    bad = list(take_field(find_sources(["rows.ndjson", "rows.csv"]).items(), "nope"))
    assert "its fields are: id, text" in bad[-1].reason
    assert "not a row" in bad[0].reason


def test_a_large_file_is_never_held_whole(place):
    with open("big.jsonl", "w") as file:
        file.writelines('{"text": "%s"}\n' % ("x" * 1000) for _ in range(20_000))
    inputs = find_sources(["big.jsonl"])
    assert inputs.count() is None
    tracemalloc.start()
    assert sum(1 for _ in inputs.items()) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_stdin_is_lines_or_json_lines(place):
    code = "import sys; from gpu_dispatch.cli.inputs import *; print(list(find_sources(['-'], sys.argv[1]).items()))"
    for as_, expected in (("auto", ["1", '"a"']), ("paths", ["1", '"a"']), ("rows", [1, "a"])):
        done = subprocess.run([sys.executable, "-c", code, as_], input='1\n\n"a"', capture_output=True, text=True)
        assert done.stdout.strip() == repr(expected), done.stderr


def test_a_pipe_is_read_once_and_not_to_count_it(place):
    os.mkfifo("pipe.jsonl")
    with subprocess.Popen(["sh", "-c", "echo 1 > pipe.jsonl"]):
        inputs = find_sources(["pipe.jsonl"])
        assert inputs.count() is None
        assert list(inputs.items()) == [1]
