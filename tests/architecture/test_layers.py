"""Who may import whom: the borders that docs/explanation/architecture.md draws."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src/gpu_dispatch"

VOCABULARY = {"worker", "protocol", "wire", "errors", "options", "light"}
MAY_IMPORT: dict[str, set[str]] = {
    **dict.fromkeys(VOCABULARY, VOCABULARY),
    "scheduling": VOCABULARY,
    "transport": VOCABULARY,
    "devices": VOCABULARY,
    "observe": VOCABULARY,
    "runtime": VOCABULARY | {"transport"},
    "backends": VOCABULARY | {"transport", "devices", "runtime"},
    "engine": VOCABULARY | {"scheduling", "observe", "backends.contract"},
    "batching": VOCABULARY | {"transport", "devices"},
    "assembly": VOCABULARY | {"engine", "backends", "devices", "observe", "scheduling", "batching"},
    "dispatcher": VOCABULARY
    | {"engine", "backends", "devices", "observe", "batching", "assembly", "runtime.main_module", "ui.progress"},
    "records": VOCABULARY | {"dispatcher"},
    "ui": VOCABULARY | {"dispatcher", "observe", "devices", "testing"},
    "transcription": VOCABULARY | {"dispatcher", "observe", "devices"},
    "multigpu": VOCABULARY | {"dispatcher", "observe", "devices", "transcription", "ui"},
    "testing": VOCABULARY | {"scheduling", "dispatcher"},
    "cli": VOCABULARY
    | {"dispatcher", "observe", "devices", "ui", "multigpu", "transcription", "testing", "records", "__version__"},
    "__init__": VOCABULARY | {"dispatcher", "records"},
    "__main__": {"cli"},
}
THIRD_PARTY = {
    "rich": {"ui", "cli"},
    "tqdm": {"ui"},
    "IPython": {"ui"},
    "pynvml": {"devices"},
    "faster_whisper": {"transcription"},
    "ctranslate2": {"transcription"},
    "av": {"transcription"},
    "numpy": {"transcription", "cli"},
    "pyarrow": {"cli"},
    "cloudpickle": {"transport"},
    "torch": {"transport"},
}
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "templates" not in path.parts)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that is imported, anywhere in the file."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative imports hide where they lead"
            assert node.module is not None
            if node.module == "gpu_dispatch":
                for name in node.names:
                    yield f"gpu_dispatch.{name.name}", node.lineno
            else:
                yield node.module, node.lineno


def allowed(room: str, target: str) -> bool:
    """``target`` without the package's name."""
    if not target or target.split(".")[0] == room:
        return True
    public = {"BaseWorker", "Dispatcher", "RetryPolicy", "TaskError", "TaskSuccess", "TaskTimeout"}
    if target in public:  # through the front door: that is dispatcher and vocabulary
        return "dispatcher" in MAY_IMPORT[room] or target == "BaseWorker"
    return any(target == ok or target.startswith(f"{ok}.") for ok in MAY_IMPORT[room])


def wrong_imports(is_wrong: Callable[[str, str], bool]) -> list[str]:
    return [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in SOURCES
        for name, line in imports(path)
        if is_wrong(room_of(path), name)
    ]


def test_every_room_says_what_it_may_import() -> None:
    assert {room_of(path) for path in SOURCES} == set(MAY_IMPORT)


def test_a_room_imports_only_what_it_may() -> None:
    def is_wrong(room: str, name: str) -> bool:
        return name.split(".")[0] == "gpu_dispatch" and not allowed(room, name.partition(".")[2])

    assert not wrong_imports(is_wrong)


def test_third_party_packages_stay_in_their_rooms() -> None:
    assert not wrong_imports(lambda room, name: room not in THIRD_PARTY.get(name.split(".")[0], {room}))


def test_the_scheduler_has_no_clock_thread_process_file_or_chance() -> None:
    forbidden = {"time", "threading", "multiprocessing", "subprocess", "os", "io", "random", "logging", "socket"}
    wrong = [
        f"{path.name}:{line}: {name}"
        for path in (PACKAGE / "scheduling").glob("*.py")
        for name, line in imports(path)
        if name.split(".")[0] in forbidden
    ]
    assert not wrong
