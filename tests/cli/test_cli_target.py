"""What TARGET may be, and what is said about one that cannot be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_dispatch.cli.target import load_target
from gpu_dispatch.errors import UsageError

WORKER = """
from gpu_dispatch.worker import BaseWorker
from functools import partial

class Good(BaseWorker):
    def setup(self, gpu_id, seed): pass
    def process(self, data): return data

class Half(BaseWorker):
    def setup(self, gpu_id, seed): pass

class Stranger:
    class Inner(Good): pass

def function(item): return item
async def later(item): return item
ready = partial(max, 0)
number = 3
"""


@pytest.fixture(autouse=True)
def _clean_imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(tmp_path: Path, name: str, text: str = WORKER) -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("spec", "name", "is_function"),
    [
        ("sound.py:Good", "Good", False),
        ("./sound.py:Good", "Good", False),
        ("sound:Good", "Good", False),
        ("sound.py:Stranger.Inner", "Stranger.Inner", False),
        ("sound.py:function", "function", True),
        ("sound.py:ready", "ready", True),
        ("sound.py", "Good", False),
    ],
)
def test_a_class_or_a_function_is_found(tmp_path, spec, name, is_function):
    write(tmp_path, "sound.py")
    target = load_target(spec)
    assert (target.module, target.name, target.is_function) == ("sound", name, is_function)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("sound.py:Goood", "there is no Goood in sound; it has: Good, function, later"),
        ("sound.py:Half", "does not define process"),
        ("sound.py:Stranger", "does not derive from gpu_dispatch.BaseWorker; it has: Good"),
        ("sound.py:later", "async function"),
        ("sound.py:number", "neither a class nor a function but a int"),
        ("absent.py:Good", "there is no file absent.py"),
        (".:Good", "is a folder"),
        ("no.such.module:Good", "there is no module 'no.such.module'"),
        ("nested/sound:Good", "there is no file nested/sound; there is nested/sound.py"),
        ("sound.py:", "write worker.py:Class"),
        (":Good", "write worker.py:Class"),
        ("notes.txt/x:Good", "there is no file"),
        ("broken.py:Good", "broken.py, line 2"),
        ("raising.py:Good", "ZeroDivisionError: division by zero (raising.py, line 1)"),
        ("needy.py:Good", "No module named 'a_module_nobody_has' (needy.py, line 1); is it installed?"),
        ("two.py", "which class or function? write two.py:NAME; it has: A, B"),
        ("a.b.py:Good", "without dots"),
        ("queue.py:Good", "has the name of a module of Python itself"),
        ("pytest.py:Good", "has the name of a module that is imported from"),
    ],
)
def test_what_cannot_be_used_is_named_in_one_line(tmp_path, spec, said):
    for name in ("sound.py", "a.b.py", "queue.py", "pytest.py"):
        write(tmp_path, name)
    write(tmp_path, "nested/sound.py")
    write(tmp_path, "broken.py", "def good():\nreturn")
    write(tmp_path, "raising.py", "1 / 0")
    write(tmp_path, "needy.py", "import a_module_nobody_has")
    write(tmp_path, "two.py", WORKER.split("class Half")[0].replace("Good", "A") + "class B(A): pass\n")
    with pytest.raises(UsageError) as caught:
        load_target(spec)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_inside_a_package_may_use_relative_imports(tmp_path):
    write(tmp_path, "house/__init__.py", "")
    write(tmp_path, "house/room/__init__.py", "")
    write(tmp_path, "house/room/names.py", "NAME = 'sound'")
    write(tmp_path, "house/room/worker.py", "from .names import NAME\n" + WORKER)
    assert load_target("house/room/worker.py:Good").module == "house.room.worker"


def test_a_name_with_a_hyphen_can_be_imported_by_the_workers(tmp_path):
    write(tmp_path, "my-worker.py")
    target = load_target("my-worker.py:Good")
    assert __import__(target.module).Good is target.obj


def test_neighbours_of_the_file_are_found_but_hide_nothing_of_python(tmp_path):
    """As a process of its own: sys.path is as a worker would get it."""
    write(tmp_path, "job/random.py", "raise RuntimeError('this hides the standard library')")
    write(tmp_path, "job/rich.py", "MINE = True")
    write(tmp_path, "job/worker.py", "import random, rich\nrandom.random()\nassert rich.MINE\n" + WORKER)
    code = "from gpu_dispatch.cli.target import load_target; print(load_target('job/worker.py:Good').name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("Good\n", "")
