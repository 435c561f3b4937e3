"""The programs of docs/howto/watch_a_run.md run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "howto" / "watch_a_run.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("number", "expected"), [(0, "2 done, 1 failed"), (1, "running")])
def test_every_program_of_the_page_runs(number: int, expected: str, tmp_path: Path) -> None:
    assert len(PROGRAMS) == 2
    script = tmp_path / "program.py"
    script.write_text(PROGRAMS[number], encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


def test_the_picture_is_there_and_asks_nothing_of_the_network() -> None:
    picture = (DOCS / "images" / "dashboard.svg").read_text(encoding="utf-8")
    assert "gpu_dispatch:" in picture.replace("&#160;", " ")
    links = set(re.findall(r"https?://[^\"')\s]+", picture))
    assert links <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
    assert "@font-face" not in picture
