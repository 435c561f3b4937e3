"""Taking back tasks that have not begun. A task moves only when its worker says so, or is dead.

Two occasions: an idle slot has nothing to do while others hold more than they run; and a slot must let go of what it
has not begun (a task in it takes too long, it leaves, the run was stopped).

Nothing moves to and fro: a slot is asked on behalf of idle ones only while there are more of those than questions on
their way, for no more than they can use; and one that gave back less than it was asked for is not asked again before it
has made progress or got new tasks.
"""

from __future__ import annotations

from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told
from gpu_dispatch.scheduling.copies import Copies
from gpu_dispatch.scheduling.fates import Fates
from gpu_dispatch.scheduling.feeding import Feeding
from gpu_dispatch.scheduling.slot import NEVER, Phase, Slot
from gpu_dispatch.scheduling.state import State

WORTH_MOVING_S = 0.005
"""Work queued behind a running task that would be done sooner than this is not worth moving."""
ASK_ANOTHER_S = 0.020
"""A worker that holds the interpreter in native code cannot answer a recall. After this long, another one is asked."""
LOOKED_AT = 16
"""How many slots are compared to find one with a long queue. All of them would cost more with more slots."""


class Moving:
    __slots__ = ("_ask_again_at", "_copies", "_fates", "_feeding", "_on_their_way", "_state")

    def __init__(self, state: State, fates: Fates, feeding: Feeding, copies: Copies) -> None:
        self._state = state
        self._fates = fates
        self._feeding = feeding
        self._copies = copies
        self._on_their_way = 0  # recalls on behalf of idle slots
        self._ask_again_at = 0.0

    def recall_for_idle(self) -> None:
        """There are idle slots and nothing for them: take from the longest queue."""
        state, feeding = self._state, self._feeding
        while feeding.loaded:
            if self._on_their_way >= feeding.idle_count and state.now < self._ask_again_at:
                state.alarms.wake(self._ask_again_at)
                return
            slot = self._longest_queue()
            if slot is None:
                return
            self._on_their_way += 1
            self._ask_again_at = state.now + ASK_ANOTHER_S
            slot.recalled_for_idle = True
            behind = slot.held.count - 1
            self._recall(slot, behind - behind // (feeding.idle_count + 1))

    @property
    def has_unstarted(self) -> bool:
        """Whether somebody may hold more than it runs."""
        loaded = self._feeding.loaded
        while loaded and loaded[0].held.count < 2:
            loaded.popleft().in_loaded = False
        return bool(loaded)

    def _longest_queue(self) -> Slot | None:
        """Slots that have nothing to give are dropped here; they come back with their next task or answer."""
        loaded = self._feeding.loaded
        best, most_s = None, WORTH_MOVING_S
        worth: list[Slot] = []
        while loaded and len(worth) < LOOKED_AT:
            slot = loaded.popleft()
            slot.in_loaded = False
            behind = slot.held.count - 1
            if behind < 1 or not self._may_be_asked(slot):
                continue
            behind_s = behind * (1.0 if slot.mean_s is None else slot.mean_s)
            if behind_s > WORTH_MOVING_S:
                worth.append(slot)
                if behind_s > most_s:
                    best, most_s = slot, behind_s
        for slot in worth:
            if slot is not best:
                slot.in_loaded = True
                loaded.append(slot)
        return best

    def _may_be_asked(self, slot: Slot) -> bool:
        if slot.phase is not Phase.READY or slot.recalled is not None or slot.barren:
            return False
        return slot.group is None and not slot.picky

    def recall_unstarted(self, slot: Slot) -> None:
        """It shall let go of whatever has not begun. If it is being asked already, ``on_given_back`` asks again."""
        if slot.recalled is None and slot.held:
            self._recall(slot, slot.held.count)

    def ask_for_results(self, slot: Slot) -> None:
        """A recall of nothing: its answer brings results that are finished, but not sent."""
        if slot.recalled is None:
            self._recall(slot, 0)

    def _recall(self, slot: Slot, count: int) -> None:
        slot.recalled = count
        self._state.out.append(do.RecallTasks(slot.number, count))

    def on_given_back(self, what: told.TasksGivenBack) -> None:
        slot = self._state.slots[what.slot]
        asked = slot.recalled or 0
        self._forget_recall(slot)
        returned = slot.held.remove(what.task_ids)
        slot.forget_told(what.task_ids)
        if asked:
            slot.barren = len(what.task_ids) < asked
        self._fates.put_back(slot, self._copies.drop(slot, returned))
        if not slot.held:
            slot.group = None
            slot.picky = False
            if not slot.told:
                slot.check_at = NEVER
        elif not slot.barren:
            if self._must_let_go(slot):
                self.recall_unstarted(slot)
            self.note_load(slot)
        self._feeding.note_room(slot)

    def _must_let_go(self, slot: Slot) -> bool:
        if slot.phase is not Phase.READY:
            return False
        if slot.told or slot.leaving or self._state.stop is not None:
            return True
        return slot.stalled_on is not None and self._state.in_service > 1

    def note_load(self, slot: Slot) -> None:
        """To be called when something changed that may make it worth asking."""
        if slot.held.count > 1 and not slot.in_loaded:
            slot.in_loaded = True
            self._feeding.loaded.append(slot)

    def take_out_all(self, slot: Slot) -> None:
        """The worker is gone; the caller puts its tasks elsewhere."""
        slot.held.clear()
        slot.told = ()
        slot.doubted = None
        slot.frozen = False
        slot.lost_race = False
        slot.stalled_on = None
        slot.barren = False
        slot.group = None
        slot.picky = False
        slot.check_at = NEVER
        self._forget_recall(slot)
        self._feeding.close(slot)

    def _forget_recall(self, slot: Slot) -> None:
        slot.recalled = None
        if slot.recalled_for_idle:
            slot.recalled_for_idle = False
            self._on_their_way -= 1
