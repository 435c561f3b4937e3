"""RichDispatcher: a Dispatcher that is watched.

It holds a Dispatcher and hands everything on to it; around a run it puts a Watch, whose thread pulls ``get_stats()``
and draws. The run itself happens exactly as without: callbacks are called on the caller's thread, signals are
the Dispatcher's business.

Rich is imported when there is something to show; ``show_ui=False`` works without it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gpu_dispatch.dispatcher import Dispatcher
from gpu_dispatch.errors import UsageError
from gpu_dispatch.protocol import Outcome
from gpu_dispatch.ui.readings import Readings
from gpu_dispatch.ui.watch import Watch, check_refresh_rate
from gpu_dispatch.worker import BaseWorker

if TYPE_CHECKING:
    from rich.console import Console


class RichDispatcher:
    """The API of :class:`~gpu_dispatch.Dispatcher`, with a live dashboard.

    ``refresh_rate``: frames per second. ``show_ui=False``: no view at all, the same statistics.
    ``console``: the ``rich.console.Console`` to draw on, instead of standard output.
    Worker output is kept off the screen; ``suppress_worker_output=False`` lets it through.
    """

    def __init__(
        self,
        worker_cls: type[BaseWorker],
        gpu_ids: Any,
        queue_size: int = 1024,
        *,
        refresh_rate: float = 4.0,
        show_ui: bool = True,
        console: Console | None = None,
        suppress_worker_output: bool = True,
        **options: Any,
    ) -> None:
        self._refresh_rate = check_refresh_rate(refresh_rate)
        self._show_ui = show_ui
        self._console = console
        if show_ui and find_spec("rich") is None:
            raise UsageError("the dashboard needs rich, which is not installed: pip install 'gpu-dispatch[ui]'")
        if show_ui and options.get("progress") is not None:
            raise UsageError("progress= draws where the dashboard does: use Dispatcher(progress=...), or show_ui=False")
        self._dispatcher = Dispatcher(
            worker_cls, gpu_ids, queue_size, suppress_worker_output=suppress_worker_output, **options
        )

    def run(
        self,
        generator: Iterable[Any],
        on_success: Callable[..., Any] | None = None,
        on_error: Callable[..., Any] | None = None,
        on_timeout: Callable[..., Any] | None = None,
        on_setup_fail: Callable[..., Any] | None = None,
        on_task_start: Callable[..., Any] | None = None,
        on_exit: Callable[..., Any] | None = None,
        base_seed: int = 42,
        task_timeout: float | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """As ``Dispatcher.run()``, with ``on_success`` optional: what matters may be in the statistics it returns."""
        with self._watching():
            return self._dispatcher.run(
                generator,
                _ignore if on_success is None else on_success,
                on_error=on_error,
                on_timeout=on_timeout,
                on_setup_fail=on_setup_fail,
                on_task_start=on_task_start,
                on_exit=on_exit,
                base_seed=base_seed,
                task_timeout=task_timeout,
                **more,
            )

    def stream(self, generator: Iterable[Any], **arguments: Any) -> Iterator[Outcome]:
        """As ``Dispatcher.stream()``; the view is there while the outcomes are taken."""
        return self._watched(self._dispatcher.stream(generator, **arguments))

    def _watched(self, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        with self._watching():
            try:
                yield from outcomes
            finally:
                outcomes.close()  # type: ignore[attr-defined]  # it is a generator; the view goes after the workers

    async def astream(self, generator: Iterable[Any], **arguments: Any) -> AsyncIterator[Outcome]:
        """As ``Dispatcher.astream()``."""
        outcomes = self._dispatcher.astream(generator, **arguments)
        with self._watching():
            try:
                async for outcome in outcomes:
                    yield outcome
            finally:
                await outcomes.aclose()

    def get_stats(self) -> dict[str, Any]:
        return self._dispatcher.get_stats()

    def shutdown(self, drain_timeout: float | None = None, *, wait: bool = True) -> None:
        self._dispatcher.shutdown(drain_timeout, wait=wait)

    def __getattr__(self, name: str) -> Any:
        """What else a Dispatcher tells about itself, such as ``worker_ids``."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._dispatcher, name)

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        if not self._show_ui:
            yield
            return
        from gpu_dispatch.ui.choose import choose_view

        dispatcher = self._dispatcher
        readings = Readings(lambda: {worker: grant.physical for worker, grant in dispatcher.worker_grants.items()})
        last_run = dispatcher.get_stats()["start_time"]

        def snapshot() -> dict[str, Any] | None:
            stats = dispatcher.get_stats()
            return None if stats["start_time"] == last_run else readings.added_to(stats)

        view = choose_view(self._console)
        with contextlib.closing(readings), Watch(view, snapshot, refresh_rate=self._refresh_rate):
            yield


def _ignore(task_id: int, result: Any, worker_id: int) -> None:
    """The ``on_success`` of those who gave none."""
