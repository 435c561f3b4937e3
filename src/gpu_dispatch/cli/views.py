"""``--ui``: a Dispatcher that shows its run as asked, always on stderr, so that stdout stays free for results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gpu_dispatch.errors import UsageError
from gpu_dispatch.worker import BaseWorker

if TYPE_CHECKING:
    from gpu_dispatch.dispatcher import Dispatcher
    from gpu_dispatch.ui import RichDispatcher

UI_CHOICES = ("rich", "tqdm", "plain", "none")

_PACKAGES = {"rich": "'gpu-dispatch[ui]'", "tqdm": "tqdm"}


def choose_ui(asked: str | None, *, results_on_terminal: bool) -> str:
    """What was asked for; otherwise the dashboard on a terminal that Rich can draw on, and plain lines elsewhere."""
    if asked in _PACKAGES and find_spec(asked) is None:
        raise UsageError(f"--ui {asked} needs the package {asked}: pip install {_PACKAGES[asked]}")
    if asked == "rich" and results_on_terminal:
        raise UsageError("--ui rich draws where the results are printed; give -o FILE")
    if asked is not None:
        return asked
    if results_on_terminal:
        return "none"  # the results themselves show how far it has come
    return "rich" if _draws(2) and find_spec("rich") is not None else "plain"


def make_dispatcher(
    ui: str, worker_cls: type[BaseWorker], gpus: str, options: Mapping[str, Any]
) -> Dispatcher | RichDispatcher:
    if ui == "rich":
        from rich.console import Console

        from gpu_dispatch.ui import RichDispatcher

        return RichDispatcher(worker_cls, gpus, console=Console(stderr=True), **options)
    from gpu_dispatch.dispatcher import Dispatcher

    return Dispatcher(worker_cls, gpus, **options)


@contextmanager
def progress_shown(ui: str, dispatcher: Dispatcher | RichDispatcher) -> Iterator[None]:
    """Bars or lines while the run goes on inside; the dashboard shows itself."""
    if ui not in ("tqdm", "plain"):
        yield
        return
    from gpu_dispatch.ui.progress import start_progress

    progress = start_progress(ui, dispatcher.get_stats)
    try:
        yield
    finally:
        progress.close()


def _draws(fd: int) -> bool:
    return os.isatty(fd) and os.environ.get("TERM", "") not in ("", "dumb")
