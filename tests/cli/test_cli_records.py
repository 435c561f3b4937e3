"""From callbacks to records, and from a run to its last words."""

from __future__ import annotations

import json

import pytest

from gpu_dispatch.cli.ending import Ending, what_was_raised
from gpu_dispatch.cli.output import JsonLines
from gpu_dispatch.cli.readers import BadRow
from gpu_dispatch.cli.records import Records
from gpu_dispatch.errors import AllWorkersFailed, ErrorReport


@pytest.fixture
def output(tmp_path):
    with JsonLines(str(tmp_path / "out.jsonl")) as output:
        yield output


def written(output: JsonLines) -> list[dict[str, object]]:
    with open(output.path) as file:
        return [json.loads(line) for line in file]


def test_each_outcome_has_its_own_input_beside_it(output):
    records = Records(output)
    assert list(records.remember(["a", "b", "c", "d"])) == ["a", "b", "c", "d"]
    records.on_success(2, {"n": 3}, 0)
    records.on_error(0, ErrorReport("boom", kind="crash", attempt=2), 1)
    records.on_timeout(1, 2.5, 1)
    records.on_error(3, ErrorReport("Ctrl-C", kind="cancelled"), 0)
    assert written(output) == [
        {"task_id": 2, "input": "c", "result": {"n": 3}, "worker": 0},
        {"task_id": 0, "input": "a", "error": "boom", "kind": "crash", "attempt": 2, "worker": 1},
        {"task_id": 1, "input": "b", "error": "timed out after 2.5 s", "kind": "timeout", "worker": 1},
    ]
    assert records._inputs == {}, "a settled task's input is forgotten"


def test_a_row_that_cannot_be_read_is_a_record_and_takes_no_number(output):
    records = Records(output)
    assert list(records.remember(["a", BadRow("x.jsonl, line 2", "{", "not JSON"), "b"])) == ["a", "b"]
    assert records.unreadable == 1
    assert written(output) == [{"task_id": None, "input": "{", "error": "x.jsonl, line 2: not JSON", "kind": "input"}]
    records.on_success(1, None, 0)
    assert written(output)[-1]["input"] == "b"


def test_the_limit_counts_items_and_pulls_no_more(output):
    def items():
        yield from ("a", BadRow("x", "", "bad"), "b")
        raise AssertionError("one too many was pulled")

    assert list(Records(output).remember(items(), limit=2)) == ["a", "b"]


@pytest.mark.parametrize(
    ("stats", "more", "code", "said"),
    [
        ({"completed": 3, "cancelled": 4}, {"interrupted_by": 130}, 130, "interrupted: 3 done, 4 not finished"),
        ({"completed": 3}, {}, 0, "3 done; results in"),
        ({"completed": 3, "failed": 1, "elapsed_s": 2.0}, {}, 1, "3 done, 1 failed in 2.0 s; results in"),
        ({"completed": 3, "timeouts": 2}, {}, 1, "3 done, 2 timed out;"),
        ({"completed": 3}, {"unreadable": 1}, 1, "3 done, 1 unreadable;"),
        (
            {"completed": 3, "failed": 1, "cancelled": 4},
            {"interrupted_by": 130},
            130,
            "interrupted: 3 done, 1 failed, 4 not",
        ),
        ({"completed": 3}, {"interrupted_by": 143}, 143, "interrupted: 3 done"),
        ({"completed": 0}, {"gave_up": AllWorkersFailed("nobody left")}, 1, "error: nobody left"),
        (
            {"completed": 3},
            {"setup_failures": ((1, "Trace\nValueError: no"),)},
            0,
            "device 1 could not start: ValueError: no",
        ),
    ],
)
def test_the_last_words_and_the_exit_code(output, stats, more, code, said):
    output.write({})
    ending = Ending(stats, output, **more)
    assert ending.exit_code == code
    assert said in "\n".join(ending.lines())
    assert json.loads(ending.as_json())["exit_code"] == code


def test_causes_are_counted_and_cut(output):
    errors = [{"cause": f"ValueError: {n}\x1b[2J", "count": 9 - n, "last_task": n, "example": ""} for n in range(7)]
    lines = list(Ending({"completed": 0, "failed": 40, "errors": errors}, output).lines())
    assert lines[0].endswith("no results were written")
    assert lines[1] == "  9 × ValueError: 0 [2J (last: task 0)"
    assert lines[-1] == "  … and 2 more causes"
    assert len(list(Ending({"failed": 40, "errors": errors}, output).lines(causes=False))) == 1


def test_what_is_not_installed_needs_no_traceback_and_the_rest_has_one(output):
    def lines(text: str) -> list[str]:
        return list(Ending({}, output, gave_up=AllWorkersFailed("All", ((0, text), (1, text)))).lines())

    assert lines("Traceback\n  File\nImportError: pip install torch") == [
        "gpu-dispatch: error: no worker could start: ImportError: pip install torch"
    ]
    assert lines("Traceback\n  File\nValueError: no") == [
        "Traceback",
        "  File",
        "ValueError: no",
        "gpu-dispatch: error: no worker could start: ValueError: no",
    ]


TRACEBACK = """Traceback (most recent call last):
  File "w.py", line 3, in setup
    model()
    ~~~~~^^
{}"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "no reason was given"),
        ("ImportError: no", "ImportError: no"),
        (TRACEBACK.format("ValueError: no\n"), "ValueError: no"),
        (TRACEBACK.format("RuntimeError: CUDA error\nCompile with\n  this"), "RuntimeError: CUDA error"),
        (TRACEBACK.format("A: 1\n\nDuring …\n\n" + TRACEBACK.format("B: 2")), "B: 2"),
        ("x" * 300, "x" * 199 + "…"),
    ],
)
def test_what_was_raised_is_the_line_that_names_it(text, line):
    assert what_was_raised(text) == line
