"""The pages about the command line: their blocks run, their tables are complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_dispatch.cli import entry
from gpu_dispatch.cli.completion import read_parser

DOCS = Path(__file__).parents[2] / "docs"
HOW_TO = DOCS / "howto" / "command_line.md"
REFERENCE = DOCS / "reference" / "cli.md"


@pytest.fixture
def shell(cli):
    """Runs a block as a user's shell would, with `gpu-dispatch` and `python` being the ones under test."""
    tools = cli.folder / "bin"
    tools.mkdir()
    programs = {"gpu-dispatch": f"{sys.executable} -m gpu_dispatch", "python": sys.executable}
    for name, program in programs.items():
        (tools / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        (tools / name).chmod(0o755)
    folder = cli.folder / "work"
    folder.mkdir()

    def run(block: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=folder,
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_every_block_of_the_how_to_runs(shell):
    blocks = re.findall(r"```(sh|json)\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    assert len(blocks) > 8
    printed = ""
    for kind, block in blocks:
        if kind == "json":
            assert printed.endswith(block), "the page shows what is really printed"
            continue
        done = shell(block)
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        printed = done.stdout


def test_the_reference_names_every_option_and_every_kind():
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", REFERENCE.read_text(), re.MULTILINE | re.DOTALL))
    assert set(sections) == {command.name for command in entry.COMMANDS}
    for line in read_parser(entry.build_parser(["run", "init", "completion"])).commands:
        for option in line.options:
            for flag in set(option.flags) - {"-h", "--help", "--traceback"}:
                assert f"`{flag}" in sections[line.name] or f"[{flag}" in sections[line.name], f"{line.name} {flag}"
            for choice in option.choices:
                assert choice in sections[line.name], f"{line.name} {option.flags} {choice}"
