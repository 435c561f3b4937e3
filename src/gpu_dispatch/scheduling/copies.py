"""Speculation: at the end of a run, idle slots run second copies of the last tasks, and the first answer wins.

    original slot ──┐
                    ├──► the first success settles the task; the other copy's answer, failure or death means nothing
    copying slot  ──┘

- Only when the input has ended, nothing waits and nothing can be recalled; one copy per task at most. The task that has
  run for longest goes first, and only when the idle slot, by its own mean, would have been done with it by now: so
  a slot that is slower than the others is helped, and even tasks on even slots are never copied.
- A copy that fails or dies while the other runs is just dropped; the task's fate is decided by the last one left.
- A worker that runs the slower copy is not waited for: it goes on with other tasks if there are any, and is killed
  when there are none. It gets no cleanup then.

A copied task stands in ``held`` of both slots. ``Scheduler.places`` counts the original only; when that is dropped, the
copy becomes the original.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_dispatch.scheduling.feeding import Feeding
from gpu_dispatch.scheduling.slot import Phase, Slot
from gpu_dispatch.scheduling.state import State
from gpu_dispatch.scheduling.waiting import WaitingTasks


class Copies:
    __slots__ = ("_copied", "_enabled", "_feeding", "_look_again_at", "_state", "_waiting", "pairs")

    def __init__(self, state: State, waiting: WaitingTasks, feeding: Feeding) -> None:
        self._state = state
        self._waiting = waiting
        self._feeding = feeding
        self._enabled = state.settings.speculate
        self._copied: set[int] = set()  # had their copy, whatever became of it
        self._look_again_at = 0.0
        self.pairs: dict[int, tuple[Slot, Slot]] = {}
        """task → (the slot that has the original, the slot that has the copy)"""

    def drop(self, slot: Slot, tasks: Sequence[int]) -> Sequence[int]:
        """``slot`` has these no more. Returns those that nobody has now; the others go on where their copy is."""
        if not self.pairs:
            return tasks
        return [task for task in tasks if self.pairs.pop(task, None) is None]

    def settle(self, winner: Slot, tasks: Sequence[int]) -> None:
        """These have succeeded in ``winner``: their other copies do not matter any more."""
        for task in tasks:
            pair = self.pairs.pop(task, None)
            if pair is not None:
                loser = pair[0] if pair[1] is winner else pair[1]
                loser.held.remove((task,))
                loser.told = (*loser.told, task)
                loser.lost_race = True
                self._feeding.note_room(loser)

    def speculate(self) -> None:
        """There are idle slots, and nothing to recall for them."""
        state, feeding = self._state, self._feeding
        if not self._enabled or not state.input_ended or state.closing or self._waiting.count:
            return
        if state.now < self._look_again_at:
            return
        while feeding.idle_count:
            original = self._longest_running()
            if original is None:
                return
            copying = feeding.first_idle()
            worth_at = original.said_at + (copying.mean_s or 0.0)
            if state.now < worth_at:
                self._look_again_at = worth_at
                state.alarms.wake(worth_at)
                return
            tasks = [task for task in original.held if task not in self._copied]
            self._copied.update(tasks)
            self.pairs.update(dict.fromkeys(tasks, (original, copying)))
            copying.group = original.group
            feeding.send(copying, tasks, together=original.group is not None)

    def _longest_running(self) -> Slot | None:
        candidates = [
            slot
            for slot in self._state.slots
            if slot.phase is Phase.READY
            and slot.held
            and (slot.held.count == 1 or slot.barren)  # all it holds is running
            and not slot.told
            and slot.recalled is None
            and not self._copied.issuperset(slot.held)
        ]
        return min(candidates, key=lambda slot: slot.said_at, default=None)
