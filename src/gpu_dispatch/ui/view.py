"""What a view is: something that is shown snapshots. How often, and what happens when it fails, is ``watch.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class View(Protocol):
    """``open`` and ``close`` are called once each, ``show`` in between, never two at a time."""

    def open(self) -> None:
        """Take hold of the screen, if need be."""

    def show(self, snapshot: Mapping[str, Any]) -> None:
        """The run looks like this now."""

    def close(self, snapshot: Mapping[str, Any] | None) -> None:
        """Give the screen back, whatever happened; then say how the run ended, if ``snapshot`` tells."""
