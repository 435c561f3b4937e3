"""What the pages show works: their programs are run, and their links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
OWN_TESTS = {"command_line.md", "cli.md", "devices.md", "watch_a_run.md", "transcribe.md", "launcher.md"}
"""Pages whose blocks are run by the tests of their own rooms, with what they need."""

LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs() -> list[pytest.param]:  # type: ignore[valid-type]
    found = []
    for page in PAGES:
        if page.name in OWN_TESTS:
            continue
        for number, code in enumerate(PROGRAM.findall(page.read_text("utf-8"))):
            found.append(pytest.param(code, id=f"{page.relative_to(ROOT)}-{number}"))
    return found


@pytest.mark.parametrize("code", programs())
def test_a_program_shown_on_a_page_runs_as_it_is(code: str, tmp_path: Path) -> None:
    # Where a page says "from my_workers import …", it means the worker of its first program.
    first = PROGRAM.findall((ROOT / "README.md").read_text("utf-8"))[0]
    (tmp_path / "my_workers.py").write_text(first, "utf-8")
    script = tmp_path / "page.py"
    script.write_text(code, "utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_something_that_is_there(page: Path) -> None:
    broken = [link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]
    assert not broken


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/index.md").read_text("utf-8")
    missing = [p.name for p in PAGES if p.parent != ROOT and p.name != "index.md" and p.name not in index]
    assert not missing
