"""Makes the helpers beside the tests importable: pytest's importlib mode leaves sys.path alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from scheduler_desk import Desk


@pytest.fixture
def two_slots() -> Desk:
    """Two workers that are ready, a window of two tasks, no retries."""
    return Desk(slots=2, fixed_window=2).with_ready_workers()
