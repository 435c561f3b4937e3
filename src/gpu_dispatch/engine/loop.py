"""The parent's one loop.

    feeder thread ──items──►┐                        ┌──► backend ──► workers
                          loop ─► Scheduler ─► perform
    workers ──► wait ──────►┘                        └──► notices ──► caller's thread

Guarantees
- Only this thread calls the scheduler, or tells the backend to start, send or kill.
- It sleeps until the next reply, death, post or deadline; it never polls, and never blocks on a full pipe.
- A slow callback cannot delay a hard timeout: callbacks run elsewhere.
- When undelivered results pile up, it stops reading: workers then block on their writes. That bounds memory in bytes,
  as the credit bounds it in items.

Not here: deciding (scheduling/), starting and killing (backends/), callbacks (delivery.py).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue

from gpu_dispatch.backends.contract import Backend, CannotStart, Died, ItemRefused, Said, TasksAnswered
from gpu_dispatch.engine.auto_packing import AutoPacking
from gpu_dispatch.engine.feeder import Feeder, InlineFeeder
from gpu_dispatch.engine.items import Items
from gpu_dispatch.engine.notices import (
    Draining,
    Ended,
    Failed,
    Notice,
    SetupGivenUp,
    Succeeded,
)
from gpu_dispatch.engine.reports import report_of
from gpu_dispatch.engine.starts import Starts
from gpu_dispatch.engine.timeline import Timeline
from gpu_dispatch.engine.worker_log import GUARD_MARK, WorkerLog
from gpu_dispatch.errors import InternalError
from gpu_dispatch.observe.stats import RunStats
from gpu_dispatch.scheduling import Scheduler
from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told
from gpu_dispatch.wire import BatchSizeLearnt, Boot, CleanupRaised, Failure, GivenBack, Ready, SetupRaised, TaskBegan

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any

MOST_UNDELIVERED_BYTES = 64 << 20
"""Results read and not delivered. Less would let workers idle behind a callback that is slow only now and then."""
WORTH_WEIGHING_BYTES = 1 << 19
"""Frames smaller than this say nothing about how many may be in flight."""
LAST_ITEM_S = 0.2
"""How long a stopped run waits for an item that the feeder is pulling at that moment."""
LAST_ITEM_OF_SHUTDOWN_S = 1.0
"""The same after ``shutdown()``, where that item is still to be processed."""


class Loop:
    def __init__(
        self,
        scheduler: Scheduler,
        backend: Backend,
        feeder: Feeder | InlineFeeder,
        stats: RunStats,
        worker_ids: Sequence[int],
        boot_for: Callable[[int], Boot],
        notices: SimpleQueue[Notice],
        *,
        announce_starts: bool,
        timeline: Timeline | None = None,
        explain_setup: Callable[[str], str | None] = lambda text: None,
        on_batch_size: Callable[[int, BatchSizeLearnt], None] = lambda slot, learnt: None,
        packing: Callable[[Callable[[int], None], Callable[[int], None]], AutoPacking] | None = None,
        add_slot: Callable[[int], None] = lambda like: None,
    ) -> None:
        self.notices = notices
        self.error: BaseException | None = None
        """Why the run failed, once it has ended."""
        self.consumed_bytes = 0  # written by the delivering thread only
        self._produced_bytes = 0
        self._scheduler = scheduler
        self._backend = backend
        self._feeder = feeder
        self._stats = stats
        self._worker_ids = worker_ids
        self._boot_for = boot_for
        self._timeline = timeline
        self._explain_setup = explain_setup
        self._on_batch_size = on_batch_size
        self._packing = None if packing is None else packing(self._add_worker, self._remove_worker)
        self._add_slot = add_slot
        self._items = Items()
        self._starts = Starts(worker_ids, self._items, notices.put, timeline, announce=announce_starts)
        self._log = WorkerLog(stats, worker_ids, timeline)
        self._failures: dict[int, Failure] = {}  # of the input that is being handled
        self._answers: TasksAnswered | None = None  # likewise
        self._heavy = False
        self._posts: deque[Callable[[], None]] = deque()
        self._feeding = False
        self._closing_at: float | None = None  # when to stop waiting for the item that is being pulled
        self._input_over = False
        self._stopping = False
        self._ended: do.EndRun | None = None
        self._life = self._turns()
        self._thread = threading.Thread(target=self._main, name="gpu-dispatch-loop", daemon=True)
        self._doors: dict[type, Callable[[int, Any], None]] = {
            TasksAnswered: self._on_answered,
            Ready: self._on_ready,
            SetupRaised: self._on_setup_raised,
            CleanupRaised: lambda slot, said: self._log.cleanup_failed(slot, said.text),
            CannotStart: self._on_cannot_start,
            GivenBack: self._on_given_back,
            TaskBegan: self._on_began,
            ItemRefused: self._on_refused,
            BatchSizeLearnt: self._on_batch_size_learnt,
            Died: self._on_died,
        }
        self._hands: dict[type, Callable[[Any], None]] = {
            do.StartWorker: self._start_worker,
            do.SendTasks: self._send_tasks,
            do.RecallTasks: lambda a: backend.recall_tasks(a.slot, a.count),
            do.PeekWorker: self._peek,
            do.KillWorker: lambda a: backend.kill(a.slot, a.reason, a.grace_s),
            do.FinishWorker: lambda a: backend.finish(a.slot),
            do.RetireSlot: self._retire,
            do.SettleSuccess: self._settle_success,
            do.SettleFailure: self._settle_failure,
            do.RetryTask: self._retry,
            do.EndRun: self._end_run,
        }

    # --- from any thread -----------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def paused(self) -> bool:
        """Too much is undelivered: results are not read."""
        return self._produced_bytes - self.consumed_bytes > MOST_UNDELIVERED_BYTES

    def wake(self) -> None:
        self._backend.wake()

    def stop_pulling(self) -> None:
        """Pull no more items; everything already pulled is settled, then the run ends."""
        self._post(self._close_input)

    def stop(self, drain_s: float, reason: str, *, say_so: bool = False) -> None:
        """Cancel what has not begun; what runs has ``drain_s`` seconds. Again, with less, hurries it."""
        self._post(lambda: self._stop(drain_s, reason, say_so=say_so))

    def _post(self, post: Callable[[], None]) -> None:
        self._posts.append(post)
        self._backend.wake()

    # --- the loop ------------------------------------------------------------------------------------------

    def _main(self) -> None:
        for _ in self._life:
            pass

    def advance(self) -> None:
        """One turn, on the thread that asks for it: for a backend that runs tasks in the calling process."""
        next(self._life)

    def _turns(self) -> Iterator[None]:
        try:
            self._tell(told.TimePassed())
            while self._ended is None:
                while self._posts:
                    self._posts.popleft()()
                self._take_items()
                heard = self._wait()
                if self._feeder.pulls_ahead:  # else whoever answered gets the few that are left, and soon the others
                    self._take_items()
                for slot, said in heard:
                    self._doors[type(said)](slot, said)
                if self._starts.is_listened_to and self._starts.look_at <= time.monotonic():
                    self._starts.look(time.monotonic(), self._backend.running)
                wake_at = self._scheduler.wake_at
                if wake_at is not None and wake_at <= time.monotonic():
                    self._tell(told.TimePassed())
                if self._packing is not None and self._packing.look_at <= time.monotonic():
                    self._packing.look(time.monotonic())
                yield
            self.error = self._log.why_none_is_left() if self._ended.no_worker_left else None
        except BaseException as bug:
            if self._thread.ident is None:  # on the caller's thread: a signal handler of the user's may have raised it
                self.error = bug
            else:
                self.error = InternalError(f"gpu_dispatch has a bug, please report it: {type(bug).__name__}: {bug}")
                self.error.__cause__ = bug
        finally:
            self._feeder.stop()
            try:
                self._backend.close()
            finally:
                self.notices.put(Ended(self.error))
        yield

    def _wait(self) -> list[tuple[int, Said]]:
        timeout = None
        if self._ended is not None:
            return []
        if self._scheduler.wake_at is not None:
            timeout = max(0.0, self._scheduler.wake_at - time.monotonic())
        if self._packing is not None:
            until_look = max(0.0, self._packing.look_at - time.monotonic())
            timeout = until_look if timeout is None else min(timeout, until_look)
        if self._starts.is_listened_to and self._scheduler.in_flight:
            until_look = max(0.0, self._starts.look_at - time.monotonic())
            timeout = until_look if timeout is None else min(timeout, until_look)
        if self._closing_at is not None and not self._scheduler.unsettled:
            until_closed = max(0.0, self._closing_at - time.monotonic())
            timeout = until_closed if timeout is None else min(timeout, until_closed)
        feeder = self._feeder
        if self._feeding and self._scheduler.wants_tasks:
            feeder.loop_is_hungry = True
            if feeder.has_items or (feeder.exhausted and not self._input_over):
                timeout = 0.0
        said = self._backend.wait(timeout, read_results=not self.paused)
        feeder.loop_is_hungry = False
        return said

    def _add_worker(self, like: int) -> None:
        """One more worker on the GPU of the slot ``like``."""
        self._add_slot(like)
        self._tell(told.SlotAdded(self._scheduler.slots[like].device))

    def _remove_worker(self, slot: int) -> None:
        self._tell(told.SlotRemoved(slot))

    def _tell(self, what: told.Input) -> None:
        for action in self._scheduler.handle(what, time.monotonic()):
            self._hands[type(action)](action)

    def _take_items(self) -> None:
        if not self._feeding or self._input_over:
            return
        exhausted = self._feeder.exhausted  # before the take: what it appended since is then still to come
        items = self._feeder.take()
        if items:
            self._submit(items)
        if exhausted and not self._feeder.has_items:
            self._end_input()
        elif self._closing_at is not None and not self._scheduler.unsettled and self._closing_at <= time.monotonic():
            self._end_input()  # the iterable blocks: whatever it was about to give is left with it

    def _submit(self, items: list[Any]) -> None:
        costs = None
        if self._feeder.with_costs:
            costs = [cost for _, cost in items]
            items = [item for item, _ in items]
        ids = self._items.add(items)
        self._stats.total = ids.stop
        if self._timeline is not None:
            self._timeline.queued(ids)
        self._tell(told.TasksSubmitted(ids, costs))

    def _close_input(self) -> None:
        """Pull no more; but an item that is being pulled right now is taken, and will be told of."""
        if not self._feeding:
            self._end_input()
        elif self._closing_at is None:
            self._closing_at = time.monotonic() + LAST_ITEM_OF_SHUTDOWN_S
            self._feeder.stop()

    def _end_input(self) -> None:
        if self._input_over:
            return
        self._closing_at = None
        self._feeder.stop()
        leftover = self._feeder.take()
        self._input_over = True
        if leftover:
            self._submit(leftover)
        self._tell(told.InputEnded())

    def _stop(self, drain_s: float, reason: str, *, say_so: bool) -> None:
        if self._ended is not None:
            return
        if not self._stopping:
            self._stopping = True
            self._stats.state = "draining"
            running = sum(1 for slot in range(len(self._worker_ids)) if self._backend.running(slot)[0])
            what = f"waiting up to {drain_s:g} s for {running} running task{'s' if running != 1 else ''}"
            if say_so:
                self.notices.put(Draining(f"gpu_dispatch: {reason}; {what}. Interrupt again to kill at once."))
        self._feeder.stop()  # the item that it is pulling is taken when it comes, or at the end
        self._tell(told.StopAsked(time.monotonic() + drain_s, reason))

    # --- said by workers -----------------------------------------------------------------------------------

    def _on_ready(self, slot: int, said: Ready) -> None:
        self._log.ready(slot, said)
        self._stats.state = "draining" if self._stopping else "running"
        if not self._feeding and not self._stopping and not self._input_over:
            self._feeding = True
            self._feeder.start()
        self._tell(told.WorkerReady(slot))

    def _on_setup_raised(self, slot: int, said: SetupRaised) -> None:
        hint = self._explain_setup(said.text)
        text = f"{said.text.rstrip()}\n{hint}" if hint else said.text
        self._log.setup_failed(slot, text)
        self._tell(told.SetupRaised(slot, text, fatal=said.text.startswith(GUARD_MARK)))

    def _on_cannot_start(self, slot: int, said: CannotStart) -> None:
        self._tell(told.SetupRaised(slot, said.text, fatal=True))

    def _on_began(self, slot: int, said: TaskBegan) -> None:
        self._starts.began(said.task_id, slot)

    def _on_answered(self, slot: int, said: TasksAnswered) -> None:
        if self._starts.is_listened_to:
            self._starts.ended((*said.task_ids, *(task_id for task_id, _, _ in said.failures)), slot)
        if said.opener is not None and self._timeline is not None:  # which tells how each task ended
            said = said.opener(said.task_ids, said.values, said.busy_s, said.size)
        if said.task_ids:
            self._answers = said
            self._tell(told.TasksSucceeded(slot, said.task_ids, sum(said.busy_s)))
            self._answers = None
        for task_id, busy_s, failure in said.failures:
            self._failures[task_id] = failure
            self._stats.workers[slot].busy_s += busy_s
            self._tell(told.TaskFailed(slot, task_id, failure.kind, failure.text, failure.type_names, busy_s))
        self._failures.clear()

    def _on_batch_size_learnt(self, slot: int, said: BatchSizeLearnt) -> None:
        self._stats.workers[slot].batch_size = said.size
        self._on_batch_size(slot, said)
        self._tell(told.BatchSizeLearnt(slot, said.at_once))

    def _on_given_back(self, slot: int, said: GivenBack) -> None:
        if self._timeline is not None:
            self._timeline.given_back(said.task_ids)
        self._tell(told.TasksGivenBack(slot, said.task_ids))

    def _on_refused(self, slot: int, said: ItemRefused) -> None:
        self._tell(told.TaskFailed(slot, said.task_id, "transport", said.text))

    def _on_died(self, slot: int, said: Died) -> None:
        if said.in_good_order:
            self._log.finished(slot)
            self._tell(told.WorkerFinished(slot))
            return
        self._log.died(slot, said.cause, cleaning_up=self._scheduler.slots[slot].is_cleaning_up)
        self._starts.forget(said.suspects)
        self._tell(told.WorkerDied(slot, said.cause, said.suspects))
        if not self._scheduler.slots[slot].in_service:
            self._log.stays_dead(slot, by_us=self._stopping)

    # --- asked by the scheduler ----------------------------------------------------------------------------

    def _start_worker(self, action: do.StartWorker) -> None:
        self._log.starting(action.slot, again=self._scheduler.slots[action.slot].starts > 1)
        self._backend.start(action.slot, self._boot_for(action.slot))

    def _send_tasks(self, action: do.SendTasks) -> None:
        if self._timeline is not None:
            self._timeline.sent(action.task_ids, action.slot)
        items = self._items.get(action.task_ids)
        sent = self._backend.send_tasks(action.slot, action.task_ids, items, together=action.together)
        heavy = sent.size > WORTH_WEIGHING_BYTES
        if heavy or self._heavy:  # also the first light one after heavy ones
            self._heavy = heavy
            self._tell(told.TasksWeighed(len(action.task_ids), sent.size))
        for refusal in sent.refused:
            self._on_refused(action.slot, refusal)

    def _peek(self, action: do.PeekWorker) -> None:
        running = self._backend.running_since(action.slot)
        if self._starts.is_listened_to:
            for task_id in running:
                self._starts.began(task_id, action.slot)
        self._tell(told.WorkerPeeked(action.slot, running, unread=self.paused))

    def _retire(self, action: do.RetireSlot) -> None:
        self._log.retired(action)
        if action.in_setup:
            self.notices.put(SetupGivenUp(self._stats.workers[action.slot].gpu_id, action.text))

    def _settle_success(self, action: do.SettleSuccess) -> None:
        answers = self._answers
        assert answers is not None
        ids, values, busy = action.task_ids, answers.values, answers.busy_s
        if len(ids) < len(answers.task_ids):  # a late answer among them was dropped
            by_id = {i: (v, b) for i, v, b in zip(answers.task_ids, values, busy, strict=True)}
            values = [by_id[i][0] for i in ids]
            busy = [by_id[i][1] for i in ids]
        self._items.drop(ids)
        self._produced_bytes += answers.size
        if self._timeline is not None:
            self._timeline.finished(ids, busy, action.slot, "success")
        worker_id, size, opener = self._worker_ids[action.slot], answers.size, answers.opener
        self.notices.put(Succeeded(action.slot, worker_id, ids, values, busy, size, opener, action.attempts))

    def _settle_failure(self, action: do.SettleFailure) -> None:
        self._items.drop((action.task_id,))
        failure = self._failures.get(action.task_id)
        worker_id = self._worker_ids[action.slot] if action.slot >= 0 else -1
        report = report_of(action, failure, worker_id)
        if self._timeline is not None:
            self._timeline.finished((action.task_id,), None, action.slot, action.word)
        self.notices.put(Failed(action.slot, worker_id, action.task_id, action.word, action.kind, report, 0.0))

    def _retry(self, action: do.RetryTask) -> None:
        self._stats.retries += 1
        if self._timeline is not None:
            self._timeline.retried(action)

    def _end_run(self, action: do.EndRun) -> None:
        self._ended = action
        if self._feeding and not self._input_over:
            self._feeder.stop()
            self._feeder.join(LAST_ITEM_S)
            self._end_input()
