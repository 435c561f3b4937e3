"""``Dispatcher(..., progress="tqdm" | "rich" | "plain")``: bars for those who want no dashboard.

All of them go to stderr, as bars do, and leave stdout to the program. Where stderr is no terminal, ``"rich"`` writes
plain lines and ``"tqdm"`` one line now and then.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import IO

from gpu_dispatch.errors import UsageError
from gpu_dispatch.ui.capture import is_terminal
from gpu_dispatch.ui.plain_view import PlainView
from gpu_dispatch.ui.view import View
from gpu_dispatch.ui.watch import GetStats, Watch

KINDS = ("tqdm", "rich", "plain", None)


class NoProgress:
    """What ``progress=None`` starts."""

    def close(self) -> None:
        pass


def check_progress(kind: object) -> None:
    """Raise ``UsageError`` for a kind that is unknown, or whose package is missing."""
    if kind not in KINDS:
        raise UsageError(f"progress must be 'tqdm', 'rich', 'plain' or None, got {kind!r}")
    if kind in ("tqdm", "rich") and find_spec(str(kind)) is None:
        package = "tqdm" if kind == "tqdm" else "'gpu-dispatch[ui]'"
        raise UsageError(f"progress={kind!r} needs the package {kind}, which is not installed: pip install {package}")


def start_progress(
    kind: str | None, get_stats: GetStats, *, refresh_rate: float = 4.0, stream: IO[str] | None = None
) -> Watch | NoProgress:
    """Show the run that ``get_stats`` tells of until ``close()`` is called."""
    check_progress(kind)
    stream = stream or sys.stderr
    if kind is None or stream is None:  # Python has no stderr when it was started with a closed one
        return NoProgress()
    return Watch(_view(kind, stream), get_stats, refresh_rate=refresh_rate).__enter__()


def _view(kind: str, stream: IO[str]) -> View:
    if kind == "tqdm":
        from gpu_dispatch.ui.tqdm_view import TqdmView

        return TqdmView(stream)
    if kind == "rich":
        from rich.console import Console

        from gpu_dispatch.ui.live_view import LiveView
        from gpu_dispatch.ui.panels.bars import bars, last_bar

        console = Console(file=stream)
        if console.is_interactive and is_terminal(stream):
            return LiveView(console, bars, last_bar)
    return PlainView(stream)
