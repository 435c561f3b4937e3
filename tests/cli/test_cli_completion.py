"""Completion scripts, made from the parsers: bash is asked for real, zsh and fish where they are installed."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from gpu_dispatch.cli import main


@pytest.fixture
def script(capsys):
    def make(shell: str) -> str:
        assert main(["completion", shell]) == 0
        return capsys.readouterr().out

    return make


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ru"], ["run"]),
        (["co"], ["completion"]),
        (["--ver"], ["--version"]),
        (["run", "--batch"], ["--batch-size"]),
        (["run", "w.py:W", "x", "--ui", ""], ["rich", "tqdm", "plain", "none"]),
        (["run", "--ui", "t"], ["tqdm"]),
        (["init", "--kind", "torch"], ["torch-image"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["run", "-o", ""], []),
        (["run", "wor"], []),
        (["--traceback", "run", "--ret"], ["--retries"]),
    ],
)
def test_bash_completes(script, words, expected):
    line = " ".join(f"'{word}'" for word in ["gpu-dispatch", *words])
    asked = f"""
{script("bash")}
COMP_WORDS=({line}); COMP_CWORD={len(words)}
_gpu_dispatch
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.split() == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_option_of_every_loaded_command_is_in_the_script(script, shell):
    text = script(shell)
    for flag in ("batch-size", "workers-per-gpu", "kind", "ui", "json"):
        assert (f"-l {flag}" if shell == "fish" else f"--{flag}") in text
    for choice in ("tqdm", "torch-image", "inline"):
        assert choice in text
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=text, text=True, check=True)


def test_fish_offers_values_only_after_their_option(script):
    line = next(line for line in script("fish").splitlines() if " -l ui " in line)
    assert line.startswith(
        "complete -c gpu-dispatch -n '__fish_seen_subcommand_from run' -l ui -x -a 'rich tqdm plain none'"
    )
