"""No port, no file, no secret where others can see it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest
from faulty_workers import FaultyWorker
from plain_workers import Echo, Sleeper
from recording import Record, run

from gpu_dispatch import AllWorkersFailed, Dispatcher

SECRET = "hf_0123456789_the_token"


def test_nothing_listens_and_nothing_is_on_a_command_line() -> None:
    seen: list[tuple[list[Any], str]] = []

    def look(*_: Any) -> None:
        for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
            seen.append((process.net_connections(kind="inet"), " ".join(process.cmdline())))

    before = len(psutil.Process().net_connections(kind="inet"))
    Dispatcher(Keeper, [0, 1]).run([SECRET, SECRET], lambda *_: None, on_task_start=look, token=SECRET)

    assert len(seen) >= 3
    assert sum(len(connections) for connections, _ in seen) == before * len(seen)
    assert all(SECRET not in command for _, command in seen)


class Keeper(Sleeper):
    def setup(self, gpu_id: int, seed: int, token: str) -> None: ...

    def process(self, item: str) -> None:
        super().process(0.3)


def test_reports_do_not_show_items_nor_the_arguments_of_setup() -> None:
    record = run(Dies, [SECRET], gpu_ids=[0], setup={"token": SECRET})
    assert SECRET not in str(record.errors[0])
    assert SECRET not in str(record.stats["errors"])

    with pytest.raises(AllWorkersFailed) as caught:
        run(Echo, [SECRET], setup={"token": SECRET})
    assert SECRET not in str(caught.value)
    assert "token" in str(caught.value)


class Dies(Echo):
    def setup(self, gpu_id: int, seed: int, token: str) -> None: ...

    def process(self, item: Any) -> Any:
        os._exit(1)


def test_a_run_writes_nothing_into_the_folder_it_is_started_in(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    record = Record()
    run(FaultyWorker, [1, ("process", "exit3"), ("process", "segfault"), 4], record=record)

    record.check(4)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("core")] == []


def test_descriptors_of_the_parent_are_not_handed_to_workers(tmp_path: Path) -> None:
    with (tmp_path / "private").open("w") as file:
        record = run(OpenFiles, [0, 1], gpu_ids=[0, 1])
        name = file.name

    for targets in record.successes.values():
        assert name not in targets
        assert sum(target.startswith("socket:") for target in targets) == 1  # its own channel


class OpenFiles(Echo):
    def process(self, item: Any) -> list[str]:
        found = []
        for number in os.listdir("/proc/self/fd"):
            try:
                found.append(os.readlink(f"/proc/self/fd/{number}"))
            except OSError:
                continue
        return found
