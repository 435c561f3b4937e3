"""Which view fits where the output goes: a notebook, a terminal that can move its cursor, or anything else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console

from gpu_dispatch.ui.capture import is_terminal
from gpu_dispatch.ui.cells import Palette
from gpu_dispatch.ui.live_view import LiveView
from gpu_dispatch.ui.notebook_view import NotebookView, in_notebook
from gpu_dispatch.ui.panels.layout import dashboard
from gpu_dispatch.ui.panels.summary import summary
from gpu_dispatch.ui.plain_view import PlainView
from gpu_dispatch.ui.snapshot import Snapshot

if TYPE_CHECKING:
    from gpu_dispatch.ui.view import View


def choose_view(console: Console | None) -> View:
    """The dashboard's view for the console given, or for standard output."""
    if console is None:
        if in_notebook():
            return NotebookView()
        console = Console()
        # FORCE_COLOR makes Rich call a pipe a terminal: colours may be wanted there, a moving cursor never is.
        moves_cursor = console.is_interactive and is_terminal(sys.stdout)
    else:
        moves_cursor = console.is_interactive
    if moves_cursor:
        return LiveView(console, dashboard, summary)
    return plain_dashboard(console)


def plain_dashboard(console: Console) -> PlainView:
    palette = Palette(None, ascii_only=console.options.ascii_only)

    def ending(snapshot: Snapshot) -> str:
        return "\n".join(palette.write(line).rstrip() for line in summary(snapshot, console.width, frames=False).lines)

    return PlainView(console.file, ending)
