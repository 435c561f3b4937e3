"""A real network in several workers, in batches: the same answers as one alone gives."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from classify_files_magika import FileClassifier
from magika import Magika
from recording import run

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def no_trace_of_onnxruntime() -> Iterator[None]:
    """It leaves a file of its own in the temp folder."""
    yield
    Path(tempfile.gettempdir(), ".ses").unlink(missing_ok=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of several kinds, many of each."""
    (tmp_path / "archive.zip").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("inside.txt", "text " * 100)
    for number in range(40):
        (tmp_path / f"{number}.one").write_text(
            f"import os\n\n\ndef function_{number}(x):\n    return os.getpid() + x\n" * 5
        )
        (tmp_path / f"{number}.two").write_text(json.dumps({"number": number, "list": list(range(50))}))
        (tmp_path / f"{number}.three").write_text(f"<html><body><p>Page {number}</p><br/></body></html>\n" * 9)
    return tmp_path


def test_magika_in_batches_over_two_workers_answers_like_magika_alone(folder: Path) -> None:
    paths = sorted(folder.iterdir())
    alone = [result.output.label for result in Magika().identify_paths(paths)]
    items = [str(path) for path in paths]
    items.insert(50, str(folder / "is not there"))
    alone.insert(50, "")
    record = run(FileClassifier, items, "cpu:2")
    record.check(122)
    assert set(record.errors) == {50}
    assert "is not there" in record.errors[50]
    assert record.successes == {number: label for number, label in enumerate(alone) if number != 50}
    assert {"python", "json", "html", "zip"} <= set(record.successes.values())
    assert set(record.workers.values()) == {0, 1}


def test_the_example_prints_what_is_in_a_folder(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "classify_files_magika.py"), str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "     40 json" in done.stdout
    assert "121 files in" in done.stdout
