"""The notebook view: the dashboard in the output cell, updated in place; the summary when it is over."""

from __future__ import annotations

import sys
from typing import Any

from gpu_dispatch.ui.cells import Block
from gpu_dispatch.ui.panels.layout import dashboard
from gpu_dispatch.ui.panels.summary import summary
from gpu_dispatch.ui.snapshot import Snapshot

_WIDTH, _HEIGHT = 110, 30  # a cell of JupyterLab on a laptop; wider ones get a scroll bar


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook. Looks only at what is imported already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class NotebookView:
    def __init__(self) -> None:
        self._handle: Any = None

    def open(self) -> None:
        from IPython.display import display

        # Displayed here, on the cell's own thread; the view's thread only updates it, which needs no cell.
        self._handle = display(_Html(Block([])), display_id=True)

    def show(self, snapshot: Snapshot) -> None:
        self._handle.update(_Html(dashboard(snapshot, _WIDTH, _HEIGHT)))

    def close(self, snapshot: Snapshot | None) -> None:
        if snapshot is not None and self._handle is not None:
            self._handle.update(_Html(summary(snapshot, _WIDTH)))


class _Html:
    """A block as IPython shows it: HTML where there is a browser, text elsewhere."""

    def __init__(self, block: Block) -> None:
        self._block = block

    def _repr_html_(self) -> str:
        return self._block.html()

    def __repr__(self) -> str:
        return self._block.text()
