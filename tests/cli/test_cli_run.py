"""gpu-dispatch run, as a process, over every kind of input, with real workers."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pytest
from pyarrow import parquet

TEXTS = ["alpha", "béta", "gamma"]
SHOUTED = ["ALPHA", "BÉTA", "GAMMA"]


@pytest.fixture
def data(cli):
    rows = [{"id": n, "text": text} for n, text in enumerate(TEXTS)]
    (cli.folder / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (cli.folder / "x.csv").write_text("id,text\n" + "".join(f"{row['id']},{row['text']}\n" for row in rows))
    (cli.folder / "x.txt").write_text("\n".join(TEXTS))
    parquet.write_table(pa.Table.from_pylist(rows), cli.folder / "x.parquet")
    (cli.folder / "d").mkdir()
    for name in "abc":
        (cli.folder / "d" / f"{name}.wav").touch()
    return cli


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["x.txt"], SHOUTED),
        (["x.jsonl"], SHOUTED),
        (["x.csv"], SHOUTED),
        (["x.parquet"], SHOUTED),
        (["x.csv", "--field", "text"], SHOUTED),
        (["x.txt", "x.parquet", "--limit", "4"], [*SHOUTED, "ALPHA"]),
        (["d"], ["D/A.WAV", "D/B.WAV", "D/C.WAV"]),
        (["d/*.wav"], ["D/A.WAV", "D/B.WAV", "D/C.WAV"]),
        (["x.txt", "--as", "paths"], ["X.TXT"]),
    ],
)
def test_every_kind_of_input(data, words, expected):
    done = data.run("run", "workers.py:Upper", *words, "-o", "out.jsonl", "--gpus", "cpu:2", "--ui", "none")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert data.results() == expected


def test_stdin_to_stdout_as_a_pipe(cli):
    done = cli.run("run", "workers.py:Upper", "-", "--gpus", "cpu:1", "--ui", "none", stdin="one\n\ntwo\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert cli.records(done.stdout) == [
        {"task_id": 0, "input": "one", "result": "ONE", "worker": 0},
        {"task_id": 1, "input": "two", "result": "TWO", "worker": 0},
    ]


def test_what_workers_print_does_not_get_between_the_results(cli):
    done = cli.run("run", "workers.py:Upper", "-", "--gpus", "cpu:1", "--ui", "none", stdin="print\nb\n")
    assert cli.results(done.stdout) == ["PRINT", "B"]
    assert "printed by a worker" in done.stderr


@pytest.mark.parametrize(
    ("target", "setup", "expected"),
    [
        ("workers.py:shout", [], ["a!"]),
        ("workers:shout", ["--setup", "mark=?"], ["a?"]),
        ("workers:Upper", ["--setup", "suffix=..."], ["A..."]),
        ("./workers.py:Upper", ["--setup", 'suffix="3"'], ["A3"]),
        ("str:upper", [], None),
        ("string:capwords", [], ["A"]),
    ],
)
def test_classes_and_functions_of_files_and_modules(cli, target, setup, expected):
    done = cli.run("run", target, "-", *setup, "--gpus", "cpu:1", "--ui", "none", stdin="a")
    if expected is None:
        assert done.returncode == 2
        return
    assert done.stderr == ""
    assert cli.results(done.stdout) == expected


def test_a_worker_in_another_folder_finds_its_neighbours(cli):
    (cli.folder / "job").mkdir()
    (cli.folder / "job" / "helper.py").write_text("def double(x): return x * 2")
    (cli.folder / "job" / "random.py").write_text("raise RuntimeError('this hides a module of Python')")
    (cli.folder / "job" / "my-worker.py").write_text("import random\nfrom helper import double")
    done = cli.run("run", "job/my-worker.py:double", "-", "--gpus", "cpu:1", "--ui", "none", stdin="ab")
    assert done.stderr == ""
    assert cli.results(done.stdout) == ["abab"]


def test_failures_are_records_and_a_summary_and_exit_code_1(cli):
    (cli.folder / "x.jsonl").write_text(
        '{"text": "a"}\n{"text": "bad 1"}\nnonsense\n{"text": "die"}\n{"text": "bad 1"}\n'
    )
    done = cli.run("run", "workers.py:Upper", "x.jsonl", "-o", "out.jsonl", "--gpus", "cpu:1", "--ui", "none")
    assert done.returncode == 1
    found = {record["task_id"]: record for record in cli.records()}
    assert found[0]["result"] == "A"
    assert found[1]["kind"] == "error"
    assert "ValueError: cannot do bad 1" in found[1]["error"]
    assert found[2]["kind"] == "crash"
    assert "SIGKILL" in found[2]["error"]
    assert found[2]["input"] == {"text": "die"}
    assert found[None]["error"].startswith("x.jsonl, line 3: not JSON")
    first, *causes = done.stderr.splitlines()
    assert first.startswith("gpu-dispatch: 1 done, 3 failed, 1 unreadable in ")
    assert any(cause.startswith("  2 × ValueError: cannot do bad") for cause in causes), causes
    assert "Traceback" not in done.stderr


def test_a_timeout_and_a_retry(cli):
    done = cli.run(
        *("run", "workers.py:Upper", "-", "-o", "out.jsonl", "--gpus", "cpu:2", "--ui", "none"),
        *("--timeout", "0.3", "--retries", "1", "--timings", "--json"),
        stdin="a\nhang\nbad\n",
    )
    assert done.returncode == 1
    found = {record["input"]: record for record in cli.records()}
    assert (found["hang"]["error"], found["hang"]["kind"]) == ("timed out after 0.3 s", "timeout")
    assert found["bad"]["attempt"] == 2
    assert 0 <= found["a"]["seconds"] < 0.3
    summary = json.loads(done.stdout)
    assert (summary["exit_code"], summary["completed"], summary["failed"], summary["timeouts"]) == (1, 1, 1, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["workers.py:Nope", "x.txt"], "there is no Nope in workers; it has: Upper, Broken, Slow, shout"),
        (["absent.py:Upper", "x.txt"], "there is no file absent.py"),
        (["no_such_module:Upper", "x.txt"], "there is no module 'no_such_module'"),
        (["workers.py:Upper", "absent.txt"], "there is no file or folder absent.txt"),
        (["workers.py:Upper", "*.mp3"], "no file matches *.mp3"),
        (["workers.py:Upper", "empty.txt"], "the input is empty"),
        (["workers.py:Upper", "d"], "the input is empty"),
        (["workers.py:Upper", "-"], "the input is empty"),
        (["workers.py:Upper", "x.txt", "--gpus", "banana"], "banana"),
        (["workers.py:Upper", "x.txt", "--gpus", "cpu:0"], "cpu:0"),
        (["workers.py:Upper", "x.txt", "--setup", "sufix=1"], "it takes: suffix='', missing=False"),
        (["workers.py:Upper", "x.txt", "--batch-size", "4"], "Upper has no process_batch(items)"),
        (["workers.py:shout", "x.txt", "--batch-size", "4"], "called once per item"),
        (["workers.py:Upper", "x.txt", "--wrong"], "unrecognized arguments: --wrong"),
        (["workers.py:Upper", "x.txt", "-o", "workers.py"], "workers.py exists already"),
        (["workers.py:Upper", "x.txt", "-o", "no/out.jsonl"], "there is no folder no"),
        (["workers.py:Upper", "x.csv", "--field", "b"], "an item has no field 'b'; its fields are: a"),
    ],
)
def test_a_mistake_is_one_line_and_starts_nothing(cli, words, said):
    (cli.folder / "x.txt").write_text("a\n")
    (cli.folder / "x.csv").write_text("a\n1\n")
    (cli.folder / "empty.txt").write_text("\n\n")
    (cli.folder / "d").mkdir()
    done = cli.run("run", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert not cli.out.exists()


def test_a_setup_that_fails_everywhere_shows_what_was_raised(cli):
    done = cli.run("run", "workers.py:Broken", "-", "-o", "out.jsonl", "--gpus", "cpu:2", "--ui", "none", stdin="a")
    assert done.returncode == 1
    assert 'workers.py", line' in done.stderr
    assert "gpu-dispatch: error: no worker could start: RuntimeError: the model is not there\n" in done.stderr
    assert done.stderr.count("Traceback") == 1
    assert "gpu_dispatch/engine" not in done.stderr


def test_a_missing_framework_is_one_line_with_what_to_install(cli):
    done = cli.run(
        *("run", "workers.py:Upper", "-", "-o", "out.jsonl", "--gpus", "cpu:2", "--ui", "none"),
        *("--setup", "missing=true"),
        stdin="a",
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "gpu-dispatch: error: no worker could start: "
        "ImportError: No module named 'torch'; this worker needs: pip install torch"
    )
    assert "Traceback" not in done.stderr


def test_a_second_run_appends_only_when_asked(cli):
    def again(*words: str):
        return cli.run(
            "run", "workers.py:shout", "-", "-o", "out.jsonl", "--gpus", "cpu:1", "--ui", "none", *words, stdin="a"
        )

    assert again().returncode == 0
    assert again().returncode == 2
    assert again("--append").returncode == 0
    assert cli.results() == ["a!", "a!"]
    assert again("--overwrite").returncode == 0
    assert cli.results() == ["a!"]


def test_a_full_disk_ends_the_run_in_one_line(cli):
    done = cli.run("run", "workers.py:shout", "-", "-o", "/dev/full", "--gpus", "cpu:1", "--ui", "none", stdin="a\nb")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "gpu-dispatch: error: /dev/full: No space left on device"
    assert "Traceback" not in done.stderr


def test_seeds_go_to_setup(cli):
    (cli.folder / "seeded.py").write_text(
        "from gpu_dispatch import BaseWorker\n"
        "class S(BaseWorker):\n"
        "    def setup(self, gpu_id, seed): self.seed = seed\n"
        "    def process(self, item): return self.seed\n"
    )
    done = cli.run("run", "seeded.py", "-", "--gpus", "cpu:1", "--seed", "7", "--ui", "none", stdin="a")
    assert cli.results(done.stdout) == [7]


def test_worker_output_is_kept_in_the_log_folder(cli):
    cli.run("run", "workers.py:Upper", "-", "-o", "out.jsonl", "--gpus", "cpu:1", "--log-dir", "logs", stdin="print")
    assert "printed by a worker" in (cli.folder / "logs" / "worker-0.log").read_text()


def test_without_a_gpu_it_says_so_and_runs_on_the_cpu(cli):
    done = cli.run("run", "workers.py:shout", "-", stdin="a")
    assert done.returncode == 0
    assert cli.results(done.stdout) == ["a!"]
    assert "there is no GPU here: one worker on the CPU" in done.stderr


def test_inline_runs_in_this_process_for_a_debugger(cli):
    (cli.folder / "where.py").write_text("import os\ndef pid(item): return os.getppid()")
    done = cli.run("run", "where.py:pid", "-", "--gpus", "cpu:1", "--backend", "inline", "--ui", "none", stdin="a")
    assert done.stderr == ""
    assert cli.results(done.stdout) == [os.getpid()]
