"""gpu-dispatch init: the file it writes, and what it refuses to write."""

from __future__ import annotations

import ast

import pytest

from gpu_dispatch.cli import main
from gpu_dispatch.cli.init import KINDS


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_worker_and_the_command_that_runs_it_fit_together(tmp_path, capsys, kind):
    assert main(["init", "mine.py", "--kind", kind]) == 0
    said = capsys.readouterr().out
    target = said.split("gpu-dispatch run mine.py:")[1].split()[0]
    code = (tmp_path / "mine.py").read_text()
    defined = {node.name for node in ast.parse(code).body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert target in defined
    assert f"gpu-dispatch run mine.py:{target}" in code, "the first lines of the file say how to run it"
    assert "worker.py" not in code
    if KINDS[kind].needs:
        assert f"pip install {KINDS[kind].needs}" in said
        assert f"pip install {KINDS[kind].needs}" in code


def test_an_existing_file_is_kept_unless_told_otherwise(tmp_path, capsys):
    path = tmp_path / "worker.py"
    path.write_text("precious")
    assert main(["init", "worker.py"]) == 2
    assert "worker.py exists already; give --overwrite" in capsys.readouterr().err
    assert path.read_text() == "precious"
    assert main(["init", "worker.py", "--overwrite"]) == 0
    assert "def process" in path.read_text()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("worker.txt", "end its name in .py"),
        ("my-worker.py", "use letters, digits and _"),
        ("queue.py", "would hide the module queue"),
        ("torch.py", "would hide the module torch"),
        ("no/such/worker.py", "cannot write no/such/worker.py: No such file or directory"),
    ],
)
def test_a_name_that_would_not_work_is_refused(tmp_path, capsys, name, said):
    assert main(["init", name]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_dash_prints_it(capsys):
    assert main(["init", "-", "--kind", "vllm"]) == 0
    assert "class LLMWorker" in capsys.readouterr().out
