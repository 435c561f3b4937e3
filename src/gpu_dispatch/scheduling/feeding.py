"""Who gets how many tasks, and when.

A slot has room when it holds nothing (idle) or not more than half of its window (hungry). What there is, is shared
out evenly among the idle slots, in the order in which they became idle; what these cannot hold, among the hungry ones.

The two queues may hold entries that are not true any more; ``Slot.room`` is. So a slot changes its standing without
a search, and nothing here costs more when there are more slots.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told
from gpu_dispatch.scheduling.slot import NEVER, Phase, Room, Slot
from gpu_dispatch.scheduling.state import State
from gpu_dispatch.scheduling.waiting import WaitingTasks
from gpu_dispatch.scheduling.window import FRAME_BYTES, LEAST, MOST

READY, NO_ROOM, HUNGRY, IDLE = Phase.READY, Room.NONE, Room.HUNGRY, Room.IDLE  # an enum's members are slow to look up


class Feeding:
    __slots__ = (
        "_batch_size", "_fixed", "_hungry", "_idle", "_most_by_weight", "_state", "_waiting", "dismissed",
        "hungry_count", "idle_count", "loaded",
    )  # fmt: skip

    def __init__(self, state: State, waiting: WaitingTasks) -> None:
        self._state = state
        self._waiting = waiting
        self._fixed = state.settings.fixed_window
        self._batch_size = state.settings.batch_size
        self._idle: deque[Slot] = deque()
        self._hungry: deque[Slot] = deque()
        self._most_by_weight = MOST
        self.idle_count = 0
        self.hungry_count = 0
        self.loaded: deque[Slot] = deque()
        """Slots that may have unstarted tasks to give back; see moving.py."""
        self.dismissed: list[Slot] = []
        """Slots that hold nothing and will get nothing: to be finished, or killed if they run what nobody needs."""

    # --- giving ----------------------------------------------------------------------------------------------

    def feed(self) -> None:
        """Give waiting tasks to slots with room. Hot."""
        waiting = self._waiting
        if waiting.groups:
            self._feed_groups()
        if waiting.elsewhere:
            self._feed_elsewhere()
        pending = waiting.pending
        takers = 0  # hungry slots that are still to get their share
        while pending.count:
            if self.idle_count:
                slot = self._idle.popleft()
                slot.in_idle = False
                if slot.room is not IDLE:
                    continue
                share = -(-pending.count // self.idle_count)
            elif self.hungry_count and not waiting.groups:  # suspects wait: the first slot to run dry shall take them
                slot = self._hungry.popleft()
                slot.in_hungry = False
                if slot.room is not HUNGRY:
                    continue
                takers = takers or self.hungry_count
                share = -(-pending.count // takers)
                takers -= 1
            else:
                return
            room = self._room_in(slot)
            if room <= 0:  # it had some, when there was more to share
                self._set_room(slot, NO_ROOM)
            elif share < room:
                self.send(slot, pending.take(share))
            else:
                self.send(slot, pending.take(room), fills=True)

    def _feed_groups(self) -> None:
        while self._waiting.groups and self.idle_count:
            slot = self.first_idle()
            tasks = self._waiting.take_group()
            slot.group = frozenset(tasks)
            self.send(slot, tasks, fills=True, together=True)

    def _feed_elsewhere(self) -> None:
        """A poisoned task goes to a slot of any other device; to the same one only when no other is in service."""
        for task, device in tuple(self._waiting.elsewhere):
            others = [slot for slot in self._state.slots if slot.in_service and slot.device != device]
            if not others:
                self._waiting.pending.put_back((task,))
            else:
                slot = next((slot for slot in others if slot.room is IDLE), None)
                slot = slot or next((slot for slot in others if slot.room is HUNGRY), None)
                if slot is None:
                    continue
                slot.picky = True
                self.send(slot, (task,), together=self._batch_size > 1)
            self._waiting.elsewhere.remove((task, device))

    def first_idle(self) -> Slot:
        """The slot that has been idle for longest; there must be one."""
        idle = self._idle
        while idle[0].room is not IDLE:
            idle.popleft().in_idle = False
        return idle[0]

    def send(self, slot: Slot, tasks: Sequence[int], *, fills: bool = False, together: bool = False) -> None:
        """``fills``: there is no room for more afterwards."""
        state, held = self._state, slot.held
        if not held.count:
            slot.said_at = state.now
            slot.still_since = NEVER
        held.add(tasks)
        state.out.append(do.SendTasks(slot.number, tasks, together))
        slot.barren = False
        if slot.check_at == NEVER:
            state.alarms.set_check(slot, state.now + slot.quiet_s)
        if not slot.in_loaded and held.count > 1:
            slot.in_loaded = True
            self.loaded.append(slot)
        room = NO_ROOM if fills or self._room_in(slot) <= 0 else HUNGRY
        if slot.room is not room or room is HUNGRY:
            self._set_room(slot, room)

    def on_weighed(self, what: told.TasksWeighed) -> None:
        mean = max(1.0, what.size / what.count)
        self._most_by_weight = min(MOST, int(2 * FRAME_BYTES / mean))

    # --- having room -----------------------------------------------------------------------------------------

    def _room_in(self, slot: Slot) -> int:
        """How many more tasks this slot should get now; 0 while more than half of its window is full.

        Nobody gets more than a fair share of what is unsettled; smaller and smaller ones once the input has ended.
        """
        held, batch_size = slot.held.count, slot.batch_size
        limit = self._fixed
        if limit is None:
            state, limit = self._state, slot.window
            if limit > self._most_by_weight:
                limit = max(self._most_by_weight, LEAST * batch_size)
            sharers = 2 * state.in_service if state.input_ended else state.in_service
            if state.unsettled < limit * sharers:
                share = -(-state.unsettled // sharers)
                limit = share if share > batch_size else batch_size
        # What is missing to a full batch is always welcome: the worker may be waiting for just that.
        return 0 if held >= batch_size and 2 * held > limit else limit - held

    def note_room(self, slot: Slot) -> None:
        """To be called when a slot holds less, or its standing has changed. Hot."""
        if slot.phase is not READY or slot.told or slot.stalled_on is not None:
            room = NO_ROOM
            if slot.lost_race and self._state.closing:
                self._dismiss(slot)
        elif slot.leaving or self._state.closing:
            room = NO_ROOM
            self._dismiss(slot)
        elif not slot.held.count:
            room = IDLE
        else:
            count = self._room_in(slot)
            if count > 0 and not self.hungry_count and not self.idle_count:
                waiting = self._waiting
                if waiting.pending.count and not waiting.groups and not waiting.elsewhere:
                    self.send(slot, waiting.pending.take(count), fills=True)  # nobody else has room: no need to queue
                    return
            room = HUNGRY if count > 0 else NO_ROOM
        if slot.room is not room:
            self._set_room(slot, room)

    def _dismiss(self, slot: Slot) -> None:
        if not slot.held.count:
            self.dismissed.append(slot)
            self._state.attention = True

    def _set_room(self, slot: Slot, room: Room) -> None:
        before = slot.room
        if before is IDLE:
            self.idle_count -= 1
        elif before is HUNGRY:
            self.hungry_count -= 1
        slot.room = room
        if room is IDLE:
            self.idle_count += 1
            if not slot.in_idle:
                slot.in_idle = True
                self._idle.append(slot)
        elif room is HUNGRY:
            self.hungry_count += 1
            if not slot.in_hungry:
                slot.in_hungry = True
                self._hungry.append(slot)

    def close(self, slot: Slot) -> None:
        """Nothing is to be sent to it any more."""
        self._set_room(slot, NO_ROOM)
