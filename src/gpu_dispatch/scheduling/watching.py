"""Looking at workers that are quiet: stalled ones, those past a time limit, those that do nothing at all.

A quiet worker is peeked at (PeekWorker → WorkerPeeked): which tasks run in it, and since when. So a time limit counts
from the task's own start, and costs no message while all is well.

    task starts            limit   + slack          + grace
    ────┼───────────────────┼────────┼────────────────┼──────►
        │                   │        │ "timed out"    │ killed, if it still runs
        │                   └ the soft timeout rings in the worker
        └ + stall: nothing may wait behind it any longer
"""

from __future__ import annotations

from collections.abc import Mapping

from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told
from gpu_dispatch.scheduling.copies import Copies
from gpu_dispatch.scheduling.deaths import Deaths
from gpu_dispatch.scheduling.fates import Fates
from gpu_dispatch.scheduling.feeding import Feeding
from gpu_dispatch.scheduling.history import Histories
from gpu_dispatch.scheduling.lifecycle import Lifecycle
from gpu_dispatch.scheduling.moving import Moving
from gpu_dispatch.scheduling.slot import NEVER, Kill, Phase, Slot
from gpu_dispatch.scheduling.state import State
from gpu_dispatch.scheduling.window import STALL_S, stall_after_s

WORD_SLACK_S = 0.1
"""After the limit, the soft timeout has this long to end the task in its own words, before the parent says it timed
out. Less, and a loaded machine turns soft timeouts into hard ones; more, and the word comes late."""
ANSWER_S = 0.05
"""How long the answer to a recall may take in a worker that is well."""
UNRESPONSIVE_S = 10.0
"""A worker that holds tasks but starts none for this long is broken (stopped, or its reader is dead)."""


class Watching:
    __slots__ = ("_copies", "_deaths", "_fates", "_feeding", "_histories", "_lifecycle", "_moving", "_state")

    def __init__(
        self,
        state: State,
        histories: Histories,
        fates: Fates,
        feeding: Feeding,
        copies: Copies,
        moving: Moving,
        lifecycle: Lifecycle,
        deaths: Deaths,
    ) -> None:
        self._state = state
        self._histories = histories
        self._fates = fates
        self._feeding = feeding
        self._copies = copies
        self._moving = moving
        self._lifecycle = lifecycle
        self._deaths = deaths

    def on_time(self, _: told.TimePassed) -> None:
        state = self._state
        for slot in state.alarms.due(state.now):
            if slot.check_at <= state.now:
                slot.check_at = NEVER
                if slot.phase is Phase.READY and (slot.held or slot.told):
                    state.out.append(do.PeekWorker(slot.number))
            if slot.deadline_at > state.now:
                continue
            if slot.phase is Phase.DYING:
                self._deaths.give_up_undead(slot)
            else:
                self._lifecycle.on_deadline(slot)
        self._fates.queue_due()

    def on_peeked(self, what: told.WorkerPeeked) -> None:
        slot, state = self._state.slots[what.slot], self._state
        if slot.phase is not Phase.READY or not (slot.held or slot.told):
            return
        if what.unread:
            slot.still_since = NEVER
        live = self._still_running(slot, what.running)
        since = min(live.values(), default=NEVER)
        if since == NEVER:
            self._see_no_progress(slot, writing=bool(live))
            return
        slot.still_since = NEVER
        running = tuple([task for task, instant in live.items() if instant == since])  # a batch shares its instant
        again_at = self._see_stall(slot, running, since)
        timeout_s = state.settings.task_timeout
        if timeout_s is not None:
            again_at = min(again_at, self._see_limit(slot, running, since + timeout_s))
        if slot.phase is Phase.READY:
            state.alarms.set_check(slot, again_at)

    def _still_running(self, slot: Slot, noted: Mapping[int, float]) -> dict[int, float]:
        """A worker that was not given the processor since it answered still notes that task as running; perhaps one
        that has been sent to it again since, for another attempt."""
        live: dict[int, float] = {}
        for task, since in noted.items():
            if task in slot.told:
                live[task] = since
            elif task in slot.held:
                failed_at = self._histories.failed_at(task)
                if since > failed_at:
                    live[task] = since
                elif self._state.now >= failed_at + UNRESPONSIVE_S:
                    # No worker is kept waiting for so long. It has begun the next attempt, then, and read its clock
                    # just before that one came.
                    live[task] = failed_at
        return live

    def _see_no_progress(self, slot: Slot, *, writing: bool) -> None:
        """It runs nothing, though it has tasks, or is stuck in the middle of writing a result.

        It may go on at any moment, or its answer may be on the way: look again, but ever more rarely.
        """
        state = self._state
        if slot.still_since == NEVER:
            slot.still_since = state.now
            self._moving.ask_for_results(slot)
        patience_s = UNRESPONSIVE_S + state.settings.batch_wait_s
        kill_at = slot.still_since + patience_s
        if state.now >= kill_at:
            what = "is in the middle of writing a result" if writing else f"holds {slot.held.count} tasks"
            text = f"it {what} and has said nothing for {patience_s:g} s"
            self._lifecycle.kill(slot, Kill.UNRESPONSIVE, text)
            return
        still_s = state.now - slot.still_since
        state.alarms.set_check(slot, min(state.now + max(STALL_S, still_s), kill_at))

    def _see_stall(self, slot: Slot, running: tuple[int, ...], since: float) -> float:
        """Nothing may wait behind a task that takes far longer than expected. Returns when to look again."""
        if slot.stalled_on is not None:
            return NEVER
        state = self._state
        stalled_at = max(since, slot.said_at) + stall_after_s(slot.usual_s, len(running))
        if state.now < stalled_at:
            return stalled_at
        slot.stalled_on = running[0]
        self._feeding.close(slot)
        if slot.held.count > len(running):
            if state.in_service > 1:
                self._moving.recall_unstarted(slot)
            else:
                self._moving.ask_for_results(slot)
        return NEVER

    def _see_limit(self, slot: Slot, running: tuple[int, ...], limit_at: float) -> float:
        """Past the limit: say so, and later kill. Returns when to look again."""
        state, grace_s = self._state, self._state.settings.timeout_grace
        kill_at = limit_at + grace_s
        word_at = min(limit_at + WORD_SLACK_S, kill_at)
        overlaps, asked = state.settings.overlaps, slot.doubted == running[0]
        if state.now >= kill_at:
            slot.told = running
            slot.frozen = overlaps and not (asked and slot.recalled is None)
            text = f"task {running[0]} was still running {grace_s:g} s after its time limit"
            self._lifecycle.kill(slot, Kill.TIMEOUT, text)
            return NEVER
        if state.now < word_at:
            return word_at
        if overlaps and not (asked and slot.recalled is None):
            # Others run beside it. One that holds the interpreter's lock makes all of them late: does it still answer?
            slot.doubted = running[0]
            self._moving.ask_for_results(slot)
            return min(state.now + ANSWER_S, kill_at)
        if len(running) == 1 and running[0] not in slot.told:
            self._say_timed_out(slot, running[0])
        return kill_at

    def _say_timed_out(self, slot: Slot, task: int) -> None:
        """If no attempt will follow, the word need not wait until the worker answers or is killed."""
        if self._histories.allows_retry(task, "timeout", killed_worker=True) or task in self._copies.pairs:
            return
        if slot.held.remove((task,)):
            self._fates.settle(slot.number, task, "timeout", "timeout", "no answer at the time limit")
        slot.told = (*slot.told, task)
        self._moving.recall_unstarted(slot)
        self._feeding.note_room(slot)
