"""Watching a run in the terminal: a dashboard, bars, or plain lines.

    Dispatcher.get_stats() ──► watch.py ──► a view ──► panels/  (pure: snapshot → lines of cells)
                                            live_view.py      region.py, capture.py: a terminal
                                            notebook_view.py  an output cell
                                            plain_view.py     a pipe, a log file, TERM=dumb
                                            tqdm_view.py      bars of tqdm

The doors:
    RichDispatcher                  a Dispatcher with a dashboard (extra ``ui``)
    progress.start_progress         what ``Dispatcher(progress=...)`` starts

Views pull snapshots; nobody pushes into them. A further view (a page, a file of metrics) is one more class with
``open``, ``show`` and ``close``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_dispatch.ui.rich_dispatcher import RichDispatcher

__all__ = ["RichDispatcher"]


def __getattr__(name: str) -> Any:
    # Late, because ``Dispatcher(progress=...)`` comes here for bars and must not import itself in a circle.
    if name == "RichDispatcher":
        from gpu_dispatch.ui.rich_dispatcher import RichDispatcher

        return RichDispatcher
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
