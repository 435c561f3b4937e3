"""Tests of packages that are not on every Python: collected where the package is, named where it is not."""

from __future__ import annotations

import importlib.util
from typing import Any


class OptionalTests:
    """In a conftest: ``collect_ignore = OPTIONAL.ignored`` and ``pytest_terminal_summary = OPTIONAL.summary``."""

    def __init__(self, package: str, why: str, *files: str) -> None:
        self.is_here = importlib.util.find_spec(package) is not None
        self.ignored = [] if self.is_here else list(files)
        self._text = f"not collected, for want of {package} ({why}): {', '.join(files)}"

    def summary(self, terminalreporter: Any) -> None:
        if not self.is_here:
            terminalreporter.write_line(self._text)


WHY_NO_TORCH = "it is no part of the dev extra on this Python; `pip install torch` adds these tests"
