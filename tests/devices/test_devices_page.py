"""The snippets of docs/howto/devices.md run, in their order, with and without GPUs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "devices.md"


@pytest.mark.parametrize("gpus", [0, 8])
def test_every_snippet_of_the_page_runs(nvml_support, nvml_library, tmp_path, gpus):
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(snippets) == 5
    machine = nvml_support.FakeNvml(tmp_path / "nvml", nvml_library, gpus=gpus)
    code = "\n".join(snippets)
    done = subprocess.run([sys.executable, "-c", code], env=machine.env(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("Fake A100" in done.stdout) == bool(gpus)
