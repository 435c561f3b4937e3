"""The way in: help and version at once, mistakes in one line, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpu_dispatch.cli import entry, main
from gpu_dispatch.errors import AllWorkersFailed, InternalError, Terminated, UsageError


def cli(*words: str, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpu_dispatch", *words], capture_output=True, text=True, check=False, **more
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu"], "there is no command 'rnu'; did you mean 'run'?"),
        (["xyzzy"], "there is no command 'xyzzy'; there are: run, transcribe"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["run"], "the following arguments are required: TARGET, INPUT"),
        (["run", "a.py:B", "x", "--ui", "fancy"], "argument --ui: invalid choice"),
        (["run", "a.py:B", "x", "--retries", "-1"], "'-1' is not a whole number of at least 0"),
        (["run", "a.py:B", "x", "--limit", "0"], "'0' is not a whole number of at least 1"),
        (["run", "a.py:B", "x", "--batch-size", "big"], "'big' is not a whole number of at least 1 or 'auto'"),
        (["run", "a.py:B", "x", "--timeout", "nan"], "'nan' is not a number of seconds above 0"),
        (["run", "a.py:B", "x", "--out", "y"], "unrecognized arguments: --out"),
        (["run", "a.py:B", "x", "--append", "--overwrite"], "not allowed with argument"),
        (["completion", "tcsh"], "invalid choice: 'tcsh'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(capsys, words, said):
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 1
    assert err.startswith("gpu-dispatch")


def test_no_command_shows_the_help_and_fails(capsys):
    assert main([]) == 2
    assert "usage: gpu-dispatch" in capsys.readouterr().err


@pytest.mark.parametrize("command", [command.name for command in entry.COMMANDS])
def test_every_command_is_in_the_help(capsys, command):
    assert main(["--help"]) == 0
    assert f"\n    {command} " in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "init", "completion"])
def test_every_command_explains_itself_with_examples(capsys, command):
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "examples:\n" in out
    assert f"gpu-dispatch {command}" in out


def test_help_and_version_import_no_command_and_nothing_heavy():
    code = """
import sys
from gpu_dispatch.cli import main
assert main(sys.argv[1:]) == 0
loaded = {m for m in sys.modules if m.startswith("gpu_dispatch.cli.")} - {"gpu_dispatch.cli.entry"}
heavy = {"rich", "numpy", "pyarrow", "torch", "tqdm", "asyncio"} & set(sys.modules)
assert not loaded | heavy, loaded | heavy
"""
    for word in ("--help", "--version"):
        done = subprocess.run([sys.executable, "-c", code, word], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "gpu-dispatch" in done.stdout


def test_a_command_that_is_not_there_yet_takes_no_other_with_it(capsys, monkeypatch):
    monkeypatch.setattr(entry, "COMMANDS", (*entry.COMMANDS, entry.Command("serve", "a page")))
    assert main(["serve"]) == 2
    assert "has no 'serve' command yet" in capsys.readouterr().err
    assert main(["completion", "bash"]) == 0


def test_a_missing_extra_is_named(capsys, monkeypatch):
    def needs_numpydoc(name: str) -> None:
        raise ModuleNotFoundError("No module named 'faster_whisper'", name="faster_whisper")

    monkeypatch.setattr(entry.importlib, "import_module", needs_numpydoc)
    assert main(["transcribe"]) == 2
    assert "needs the module 'faster_whisper'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (UsageError("no\nsuch thing"), 2, "gpu-dispatch: error: no such thing\n"),
        (AllWorkersFailed("all failed"), 1, "gpu-dispatch: error: all failed\n"),
        (FileNotFoundError(2, "No such file", "x.txt"), 1, "gpu-dispatch: error: x.txt: No such file\n"),
        (KeyboardInterrupt(), 130, ""),
        (Terminated(), 143, ""),
        (SystemExit(7), 7, ""),
        (SystemExit(), 0, ""),
    ],
)
def test_what_a_command_raises_becomes_an_exit_code(capsys, monkeypatch, raised, code, said):
    def fail(arguments: list[str]) -> int:
        raise raised

    monkeypatch.setattr(entry, "_dispatch", fail)
    assert main([]) == code
    assert capsys.readouterr().err == said


def test_a_bug_of_ours_comes_with_its_traceback(capsys, monkeypatch):
    def fail(arguments: list[str]) -> int:
        raise InternalError("gpu_dispatch has a bug")

    monkeypatch.setattr(entry, "_dispatch", fail)
    assert main([]) == 1
    assert capsys.readouterr().err.startswith("Traceback")


def test_a_bug_is_not_dressed_up_as_a_mistake(monkeypatch):
    def fail(arguments: list[str]) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(entry, "_dispatch", fail)
    with pytest.raises(ZeroDivisionError):
        main([])


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (["run", "absent.py:X", os.devnull, "--traceback"], {}),
        (["--traceback", "run", "absent.py:X", os.devnull], {}),
        (["run", "absent.py:X", os.devnull], {"GPU_DISPATCH_TRACEBACK": "1"}),
    ],
)
def test_a_traceback_is_shown_to_those_who_ask(words, env):
    done = cli(*words, env={**os.environ, **env})
    assert done.returncode == 2
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("error: there is no file absent.py\n")


def test_a_reader_that_leaves_causes_no_complaint():
    done = subprocess.run(
        f"{sys.executable} -m gpu_dispatch completion bash | true",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
