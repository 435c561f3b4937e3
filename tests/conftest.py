"""Every test, in every room, is followed by a search for what it left behind."""

from __future__ import annotations

import gc
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

# A worker process must be able to import its class, and gets this process's path. Most classes live in support/: a test
# file imports pytest, which takes longer than to start a worker.
sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.path.append(str(Path(__file__).parents[1]))

from leaks import MARK_NAME, Residue


@pytest.fixture(autouse=True)
def nothing_is_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No process, thread, descriptor, file, handler or variable outlives a test."""
    temp_folder = tmp_path_factory.mktemp(
        "temp"
    )  # the whole temp folder of the test: what is in it at the end is a leak
    mark = uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as patch:  # not the test's own: that one is undone before we look
        patch.setenv(MARK_NAME, mark)
        patch.setenv("TMPDIR", str(temp_folder))
        patch.setattr(tempfile, "tempdir", str(temp_folder))
        before = Residue.now(mark, temp_folder)
        yield
        left_behind = before.left_behind(grace_s=0.0)
        if left_behind:
            gc.collect()  # what only waits for the garbage collector is not a leak
            left_behind = before.left_behind()
    if left_behind:
        pytest.fail("left behind by this test:\n  " + "\n  ".join(left_behind), pytrace=False)
