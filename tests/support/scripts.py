"""User scripts, run as users run them: in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

SUPPORT = str(Path(__file__).parent)


def environment(more: dict[str, str] | None = None) -> dict[str, str]:
    """This process's, with the workers of the tests importable, and ``more``."""
    env = {**os.environ, **(more or {})}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (SUPPORT, env.get("PYTHONPATH"))))
    return env


def write_script(folder: Path, text: str, name: str = "script.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def run_script(
    folder: Path, text: str, *, env: dict[str, str] | None = None, timeout_s: float = 60.0, flags: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run it to its end, in ``folder``."""
    return subprocess.run(
        [sys.executable, *flags, str(write_script(folder, text))],
        cwd=folder,
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def start_script(folder: Path, text: str, *, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start it and do not wait. Let it print with ``flush=True``: unbuffered, lines of two threads would mix."""
    return subprocess.Popen(
        [sys.executable, str(write_script(folder, text))],
        cwd=folder,
        env=environment(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def without_cloudpickle(folder: Path) -> dict[str, str]:
    """The environment of a machine where cloudpickle is not installed."""
    shim = folder / "no_cloudpickle"
    shim.mkdir(exist_ok=True)
    (shim / "sitecustomize.py").write_text("import sys\nsys.modules['cloudpickle'] = None\n")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(shim), os.environ.get("PYTHONPATH"))))}
