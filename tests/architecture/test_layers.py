"""Who may import whom. A room that reaches up, or sideways, is found here and not in a year."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import gpu_dispatch

ROOT = Path(gpu_dispatch.__file__).parent

VOCABULARY = {"worker", "protocol", "errors", "options", "wire", "light"}
ON_DISPATCHER = {"dispatcher", "observe", "devices", "testing"} | VOCABULARY
MAY_IMPORT: dict[str, set[str]] = {
    **dict.fromkeys(VOCABULARY, VOCABULARY),
    "scheduling": VOCABULARY,
    "transport": VOCABULARY,
    "devices": VOCABULARY,
    "journal": VOCABULARY,
    "observe": VOCABULARY,
    "runtime": VOCABULARY | {"transport"},
    "backends": VOCABULARY | {"transport", "devices", "runtime"},
    "engine": VOCABULARY | {"scheduling", "journal", "observe", "backends.contract"},
    # The dispatcher's own modules: they put the parts together.
    "batching": VOCABULARY | {"devices", "transport"},
    "assembly": VOCABULARY | {"backends", "batching", "devices", "engine", "observe", "scheduling", "journal"},
    "dispatcher": VOCABULARY
    | {"assembly", "batching", "engine", "observe", "devices", "backends", "runtime", "journal", "ui"},
    "records": ON_DISPATCHER,
    "ui": ON_DISPATCHER,
    "web": ON_DISPATCHER,
    "transcription": ON_DISPATCHER,
    "multigpu": ON_DISPATCHER | {"transcription", "ui"},
    "cli": ON_DISPATCHER | {"ui", "web", "multigpu", "transcription", "journal", "records"},
    "testing": VOCABULARY | {"scheduling", "transport", "engine", "dispatcher", "devices"},
}
ONLY_WHEN_ASKED = {("dispatcher", "ui")}
"""Allowed inside a function only: a bar for those who want one."""

ANYWHERE = {"__init__", "__main__"}  # the front door, and the command line's

THIRD_PARTY: dict[str, set[str]] = {
    "cloudpickle": {"transport"},
    "torch": {"transport", "runtime", "cli", "testing"},
    "numpy": {"cli", "transcription"},
    "rich": {"ui", "cli"},
    "tqdm": {"ui"},
    "IPython": {"ui"},
    "ipywidgets": {"ui"},
    "pynvml": {"devices"},
    "pyarrow": {"cli"},
    "ray": {"backends"},
    "starlette": {"web"},
    "uvicorn": {"web"},
}
"""Which room may know which package. Rooms of applications (transcription, templates) know their own."""
OWN_PACKAGES = {"transcription", "cli"}
LOADED_ON_DEMAND = {"transport/tensors.py"}
"""Files that are imported only where their package is loaded already."""


class Import(NamedTuple):
    file: str
    line: int
    room: str
    target: str  # "gpu_dispatch.room.module", or a foreign package
    at_import_time: bool


def imports() -> Iterator[Import]:
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT)
        room = relative.parts[0] if len(relative.parts) > 1 else relative.stem
        for node, lazy in _walk(ast.parse(path.read_text()), lazy=False):
            for name in _names(node):
                yield Import(str(relative), node.lineno, room, name, not lazy)


def _walk(node: ast.AST, *, lazy: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, lazy
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
        yield from _walk(child, lazy=lazy or is_function or for_types)


def _names(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    assert node.level == 0, "relative imports hide who knows whom"
    if node.module == "gpu_dispatch":
        return [f"gpu_dispatch.{alias.name}" for alias in node.names]
    return [node.module or ""]


ALL = list(imports())
OURS = [found for found in ALL if found.target.startswith("gpu_dispatch.")]
PUBLIC = {"BaseWorker": "worker", "__version__": "errors", "Dispatcher": "dispatcher"}
"""Names of the front door, and where they live."""


def test_every_room_is_in_the_table() -> None:
    rooms = {found.room for found in ALL} - ANYWHERE
    assert rooms <= set(MAY_IMPORT), f"say in this file what {rooms - set(MAY_IMPORT)} may import"


def test_nobody_reaches_up() -> None:
    wrong = []
    for found in OURS:
        parts = found.target.split(".")[1:]
        target = PUBLIC.get(parts[0], parts[0])
        allowed = MAY_IMPORT.get(found.room, set())
        if found.room in ANYWHERE or target == found.room or target in allowed or ".".join(parts[:2]) in allowed:
            continue
        wrong.append(f"{found.file}:{found.line} imports {found.target}")
    assert not wrong, "\n".join(wrong)


def test_what_is_only_for_those_who_ask_is_imported_inside_a_function() -> None:
    wrong = [
        f"{found.file}:{found.line} imports {found.target}"
        for found in OURS
        if (found.room, found.target.split(".")[1]) in ONLY_WHEN_ASKED and found.at_import_time
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("room", ["scheduling"])
def test_pure_rooms_know_no_clock_thread_process_file_or_chance(room: str) -> None:
    impure = {"time", "threading", "_thread", "os", "subprocess", "random", "logging", "socket", "select", "pathlib"}
    wrong = [f"{found.file}:{found.line} imports {found.target}" for found in ALL if found.room == room]
    assert not [line for line in wrong if line.rsplit(" ", 1)[1].split(".")[0] in impure]


def test_foreign_packages_are_known_only_to_the_room_that_needs_them_and_never_at_import() -> None:
    wrong = []
    for found in ALL:
        package = found.target.split(".")[0]
        if package in sys.stdlib_module_names or package == "gpu_dispatch":
            continue
        at_home = found.room in THIRD_PARTY.get(package, set()) or (
            found.room in OWN_PACKAGES and package not in THIRD_PARTY
        )
        if not at_home:
            wrong.append(f"{found.file}:{found.line}: {found.room} should not know {package}")
        elif found.at_import_time and found.room not in {"ui", *OWN_PACKAGES} and found.file not in LOADED_ON_DEMAND:
            wrong.append(f"{found.file}:{found.line}: {package} is imported at import time")
    assert not wrong, "\n".join(wrong)
