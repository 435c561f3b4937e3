"""One run from start to end, as its caller's thread sees it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue

from gpu_dispatch.backends.contract import Backend
from gpu_dispatch.engine import notices as note
from gpu_dispatch.engine.auto_packing import AutoPacking
from gpu_dispatch.engine.credit import Credit
from gpu_dispatch.engine.delivery import Delivery
from gpu_dispatch.engine.feeder import Feeder, InlineFeeder
from gpu_dispatch.engine.interrupts import Interrupts
from gpu_dispatch.engine.loop import Loop
from gpu_dispatch.engine.timeline import Timeline
from gpu_dispatch.observe.stats import RunStats
from gpu_dispatch.options import Options, RunArguments
from gpu_dispatch.protocol import Outcome
from gpu_dispatch.scheduling import Scheduler, SchedulerSettings
from gpu_dispatch.wire import BatchSizeLearnt, Boot

FEEDER_JOIN_S = 0.2
LOOK_UP_S = 0.2
"""How long to sleep for a notice at most. A signal that came just before the sleep, or to another thread, wakes nobody:
Python runs its handler when this thread next wakes. And an interrupt may have taken the loop's last notice with it."""


class Run:
    def __init__(
        self,
        arguments: RunArguments,
        options: Options,
        settings: SchedulerSettings,
        backend: Backend,
        stats: RunStats,
        worker_ids: Sequence[int],
        boot_for: Callable[[int], Boot],
        explain_setup: Callable[[str], str | None],
        on_batch_size: Callable[[int, BatchSizeLearnt], None],
        add_slot: Callable[[int], None],
        gpu_of: list[int] | None = None,
    ) -> None:
        self.stats = stats
        self._arguments = arguments
        self._options = options
        self._notices: SimpleQueue[note.Notice] = SimpleQueue()
        self._credit = Credit(options.queue_size)
        self._inline = options.backend == "inline"
        self._feeder: Feeder | InlineFeeder
        if self._inline:
            self._feeder = InlineFeeder(arguments.items, options.cost)
        else:
            self._feeder = Feeder(arguments.items, self._credit, backend.wake, options.cost)
        scheduler = Scheduler(settings)
        timeline = None
        if arguments.on_progress is not None:
            devices = [worker.device for worker in stats.workers]
            timeline = Timeline(worker_ids, devices, lambda event: self._notices.put(note.Happened(event)))
        self._loop = Loop(
            scheduler,
            backend,
            self._feeder,
            stats,
            worker_ids,
            boot_for,
            self._notices,
            announce_starts=arguments.on_task_start is not None,
            timeline=timeline,
            explain_setup=explain_setup,
            on_batch_size=on_batch_size,
            packing=None
            if gpu_of is None
            else lambda add, remove: AutoPacking(gpu_of, stats, backend.memory, add, remove),
            add_slot=add_slot,
        )
        self._delivery = Delivery(arguments, stats, self._credit, self._on_callback_error)
        self._interrupts = Interrupts(self._drain, self._kill)
        self._caller: threading.Thread | None = None
        self._ended: note.Ended | None = None
        self._is_stream = False
        self._backend = backend
        self._over = threading.Event()
        stats.queue_depth = lambda: scheduler.queue_depth
        stats.in_flight = lambda: scheduler.in_flight
        stats.running = backend.running

    # --- the caller's thread -------------------------------------------------------------------------------

    def execute(self) -> None:
        """Deliver until the end; raises what the run is to raise."""
        try:
            with self._interrupts:
                self._begin()
                self._until_ended(self._deliver_all)
        finally:  # also when an interrupt slips in where the handlers are not ours: nothing may be left running
            self._conclude()

    def outcomes(self, *, ordered: bool = False) -> Iterator[Outcome]:
        """Yield outcomes until the end. Closing the generator ends the run."""
        self._is_stream = True
        reorder = _InOrder() if ordered else _AsTheyCome()
        try:
            with self._interrupts:
                self._begin()
                while True:
                    notice = self._next_notice()
                    if isinstance(notice, note.Ended):
                        break
                    for early in self._delivery.outcomes(notice):
                        for outcome in reorder(early):
                            yield outcome
                            self._credit.give_back(1)
                    self._account(notice)
                self._ended = notice
        finally:
            completed = self._has_ended
            if not completed and self._caller is not None:
                self.leave()
                self._until_ended(self._deliver_all)
            self._conclude(quiet=not completed)

    def shutdown(self, drain_s: float | None = None, *, wait: bool = True) -> None:
        """From any thread: pull no more, settle what was pulled, end. With ``drain_s``, as after Ctrl-C: cancel what
        has not begun, and let what runs have so many seconds.

        Waits for that, except where waiting would keep it from happening: in a callback, or when there is a stream,
        whose consumer may be the one who asks.
        """
        if drain_s is None:
            self._loop.stop_pulling()
        else:
            self._loop.stop(drain_s, "shutdown() was called")
        if wait and not self._is_stream and threading.current_thread() is not self._caller:
            self._over.wait()

    def leave(self) -> None:
        """From any thread, at once: kill what runs. Whoever waits for the next outcome of a stream gets the end."""
        self._loop.stop(0.0, "the stream was closed")

    def release(self) -> None:
        """Call when done with it: if something else failed before it began, or kept it from ending, it ends here."""
        if self.over:
            return
        self.leave()
        self._loop.join()
        self._backend.close()
        self._over.set()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    @property
    def _has_ended(self) -> bool:
        return self._ended is not None

    def _begin(self) -> None:
        if not self._inline:
            self._loop.start()
        self._caller = threading.current_thread()

    def _next_notice(self) -> note.Notice:
        while self._inline and self._notices.empty():
            self._loop.advance()
        while True:
            try:
                return self._notices.get(timeout=LOOK_UP_S)
            except Empty:
                if not self._loop.is_alive and self._notices.empty():  # it may have spoken just before it ended
                    return note.Ended(self._loop.error)

    def _deliver_all(self) -> None:
        while True:
            notice = self._next_notice()
            if isinstance(notice, note.Ended):
                self._ended = notice
                return
            self._delivery.deliver(notice)
            self._account(notice)

    def _account(self, notice: note.Notice) -> None:
        if isinstance(notice, note.Succeeded):
            loop = self._loop
            was_paused = loop.paused
            loop.consumed_bytes += notice.weight
            if was_paused and not loop.paused:
                loop.wake()

    def _until_ended(self, step: Callable[[], None]) -> None:
        """A second Ctrl-C raises out of wherever we are; the workers are being killed, so go on to the end."""
        while not self._has_ended:
            try:
                step()
            except BaseException as error:
                if self._delivery.error is None:
                    self._delivery.error = error
                self._loop.stop(0.0, "interrupted")

    def _conclude(self, *, quiet: bool = False) -> None:
        """The workers are gone: on_exit, then raise what there is to raise."""
        self._loop.join()
        self._backend.close()  # for a run that never began
        self._feeder.join(FEEDER_JOIN_S)
        stats = self.stats
        error = self._verdict()
        stats.end_time = time.time()
        stats.ended_at = time.monotonic()
        stats.state = "interrupted" if self._interrupts.received else "failed" if error else "finished"
        self._over.set()
        if self._arguments.on_exit is not None:
            try:
                self._arguments.on_exit()
            except BaseException as exit_error:
                exit_error.__context__ = error
                raise
        if error is not None and not quiet:
            raise error

    def _verdict(self) -> BaseException | None:
        if self._interrupts.received:
            return self._interrupts.exception()
        return self._delivery.error or self._feeder.error or (None if self._ended is None else self._ended.error)

    # --- asked to stop -------------------------------------------------------------------------------------

    def _on_callback_error(self, error: BaseException) -> None:
        self._loop.stop(self._options.drain_timeout, f"a callback raised {type(error).__name__}")

    def _drain(self, name: str) -> None:
        self._loop.stop(self._options.drain_timeout, name, say_so=True)

    def _kill(self, name: str) -> None:
        self._delivery.muted = True
        self._loop.stop(0.0, f"{name}, twice")


class _AsTheyCome:
    def __call__(self, outcome: Outcome) -> Iterator[Outcome]:
        yield outcome


class _InOrder:
    """Holds back what came too early. Bounded: what is held back keeps its credit."""

    def __init__(self) -> None:
        self._early: dict[int, Outcome] = {}
        self._wanted = 0

    def __call__(self, outcome: Outcome) -> Iterator[Outcome]:
        self._early[outcome.task_id] = outcome
        while self._wanted in self._early:
            yield self._early.pop(self._wanted)
            self._wanted += 1
