"""What becomes of a task: settled, tried again, or moved. Whoever is told of an outcome is told once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling.history import Histories
from gpu_dispatch.scheduling.slot import Slot
from gpu_dispatch.scheduling.state import State
from gpu_dispatch.scheduling.waiting import WaitingTasks

NO_SLOT = -1


class Fates:
    """Its callers have taken the tasks out of their place; here each gets another, or its word."""

    __slots__ = ("_histories", "_state", "_waiting")

    def __init__(self, state: State, waiting: WaitingTasks, histories: Histories) -> None:
        self._state = state
        self._waiting = waiting
        self._histories = histories

    # --- another attempt, or the word ------------------------------------------------------------------------

    def judge(
        self,
        slot: Slot,
        tasks: Sequence[int],
        kind: str,
        text: str,
        *,
        killed_worker: bool,
        type_names: tuple[str, ...] = (),
    ) -> None:
        """One task: retry or settle it. Several that failed together: halve them until the guilty one is alone."""
        if len(tasks) == 1:
            self._judge_one(slot, tasks[0], kind, text, killed_worker, type_names)
        elif self._state.stop is not None:
            self.cancel(tasks)
        elif tasks:
            middle = (len(tasks) + 1) // 2
            self._waiting.add_group(tuple(tasks[:middle]))
            self._waiting.add_group(tuple(tasks[middle:]))

    def _judge_one(
        self, slot: Slot, task: int, kind: str, text: str, killed_worker: bool, type_names: tuple[str, ...]
    ) -> None:
        state, histories = self._state, self._histories
        if state.stop is not None or not histories.allows_retry(task, kind, type_names, killed_worker=killed_worker):
            self.settle(slot.number, task, "timeout" if kind == "timeout" else "error", kind, text)
            return
        state.out.append(do.RetryTask(slot.number, task, histories.attempt(task), kind, text))
        poisoned = kind == "poisoned"
        poisoned_on = slot.device if poisoned else None
        histories.record(task, state.now, killed_worker=killed_worker, poisoned_on=poisoned_on)
        delay_s = 0.0 if poisoned else histories.delay_s(task)
        if delay_s > 0:
            self._waiting.delay(task, state.now + delay_s)
        else:
            self._queue_again(task)

    def settle(self, slot: int, task: int, word: str, kind: str, text: str) -> None:
        state, histories = self._state, self._histories
        state.unsettled -= 1
        attempt = histories.attempt(task)
        histories.forget(task)
        state.out.append(do.SettleFailure(slot, task, word, kind, text, attempt))

    def cancel(self, tasks: Iterable[int]) -> None:
        stop = self._state.stop
        reason = "no worker is left" if stop is None else stop.reason
        for task in tasks:
            self.settle(NO_SLOT, task, "cancelled", "cancelled", f"Cancelled: {reason}")

    def lose_all_waiting(self) -> None:
        for task in self._waiting.take_all():
            self.settle(NO_SLOT, task, "error", "lost", "no worker is left to run this task")

    # --- back into the queue ---------------------------------------------------------------------------------

    def put_back(self, slot: Slot, tasks: Sequence[int]) -> None:
        """These did not run in ``slot``, or were cut short there through no fault of theirs."""
        if not tasks:
            return
        if self._state.stop is not None:
            self.cancel(tasks)
            return
        group = slot.group
        if group is not None:  # still under suspicion: among others it would cost them another crash
            together = tuple(task for task in tasks if task in group)
            if together:
                self._waiting.add_group(together)
                tasks = [task for task in tasks if task not in group]
        if not self._histories.by_task:
            self._waiting.pending.put_back(tasks)
            return
        for task in tasks:
            self._queue_again(task)

    def queue_due(self) -> None:
        """Tasks whose back-off is over are ordinary again."""
        for task in self._waiting.take_due(self._state.now):
            self._queue_again(task)

    def _queue_again(self, task: int) -> None:
        history = self._histories.of(task)
        if history is not None and history.poisoned_on is not None:
            self._waiting.elsewhere.append((task, history.poisoned_on))
        elif history is not None and history.crashes and self._state.settings.batch_size > 1:
            self._waiting.add_group((task,))  # it has killed a worker all by itself: never again in company
        else:
            self._waiting.pending.put_back((task,))
