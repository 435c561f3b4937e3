"""Running the command line as its users do: as a process, in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

# As the installed script starts: without the working folder on sys.path, which `python -m` would put there.
LAUNCH = "import sys; del sys.path[0]; from gpu_dispatch.cli import main; sys.exit(main())"

WORKERS = """
import os, signal, sys, time
from gpu_dispatch import BaseWorker

class Upper(BaseWorker):
    def setup(self, gpu_id, seed, suffix="", missing=False):
        if missing:
            raise ImportError("No module named 'torch'; this worker needs: pip install torch")
        self.suffix, self.seed = suffix, seed

    def process(self, item):
        text = item if isinstance(item, str) else item["text"]
        if "bad" in text:
            raise ValueError(f"cannot do {text}")
        if "die" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "hang" in text:
            time.sleep(60)
        if "print" in text:
            print("printed by a worker", flush=True)
        return text.upper() + self.suffix

class Broken(BaseWorker):
    def setup(self, gpu_id, seed):
        raise RuntimeError("the model is not there")
    def process(self, item):
        return item

class Slow(BaseWorker):
    def setup(self, gpu_id, seed):
        pass
    def process(self, item):
        time.sleep(0.02)
        return item

def shout(item, mark="!"):
    return f"{item}{mark}"
"""


class CommandLine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out.jsonl"
        (folder / "workers.py").write_text(WORKERS)

    def words(self, *words: object) -> list[str]:
        # Warnings are errors: nothing that a user would see on stderr is left over from sloppiness.
        return [sys.executable, "-W", "error", "-c", LAUNCH, *map(str, words)]

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "TERM": "xterm-256color", **more}

    def run(self, *words: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*words),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd=self.folder,
            env=self.environment(),
        )

    def start(self, *words: object, **more: Any) -> subprocess.Popen[str]:
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **more}
        return subprocess.Popen(self.words(*words), text=True, cwd=self.folder, env=self.environment(), **more)

    def records(self, text: str | None = None) -> list[dict[str, Any]]:
        text = self.out.read_text() if text is None else text
        assert text == "" or text.endswith("\n"), "the last line is not whole"
        return [json.loads(line) for line in text.splitlines()]

    def results(self, text: str | None = None) -> list[Any]:
        """In the order of the input."""
        return [record["result"] for record in sorted(self.records(text), key=lambda record: record["task_id"])]


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    yield CommandLine(tmp_path)
    left = [p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
    assert left == [], "a process was left behind"
