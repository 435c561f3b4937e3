"""How many tasks a slot may hold, and how many go into one frame.

Too few and the worker idles while a message travels (some 0.3 ms); too many and tasks wait behind a slow one
while other GPUs idle. So the window follows measured durations: about 4 ms of work per frame, two frames per slot
(one being worked on, one waiting), never fewer than two tasks.
"""

from __future__ import annotations

from math import sqrt

from gpu_dispatch.scheduling.slot import Slot

FRAME_S = 0.004
"""Work per frame. Halve it and the cost of a frame (about 60 µs on both sides) shows in empty tasks; double it and
finished results wait longer than a person notices."""
TWO_FRAMES_S = 2 * FRAME_S
LEAST = 2
MOST = 4096
FRAME_BYTES = 4 << 20
"""Large tasks are counted in bytes as well: more of them in flight would only push each other out of the cache, and
fill shared memory, while a copy takes less time than a frame's worth of work."""
BRIEFEST_S = 1e-7
"""No task is believed to be shorter: clocks have steps."""

STALL_S = 0.020
"""A worker this quiet is looked at. A tenth of it would look at every 2 ms task; ten times it and a fast task could
wait 0.2 s behind a slow one."""
ROOT_OF_STRAGGLER = 8.0
STRAGGLER = ROOT_OF_STRAGGLER**2
"""So many times as long as usual, a task says that it is a straggler, and no more about the others than that."""
STALL_TIMES = 4.0
"""... or this many times as long as usual, so that evenly long tasks never count as stalled."""


class Pace:
    """What follows from how long a slot's tasks take: its window, and how long it may be quiet."""

    __slots__ = ("_batch_size", "_most_quiet_s")

    def __init__(self, batch_size: int, most_quiet_s: float) -> None:
        self._batch_size = batch_size
        self._most_quiet_s = most_quiet_s

    def begin(self, slot: Slot) -> None:
        """Nothing has been measured yet: one to run, one to wait."""
        slot.batch_size = slot.batch_size or self._batch_size
        slot.window = LEAST * slot.batch_size
        slot.quiet_s = min(STALL_S, self._most_quiet_s)

    def resize(self, slot: Slot, batch_size: int) -> None:
        """Its worker takes so many tasks at once from now on."""
        slot.batch_size = batch_size
        if slot.mean_s is not None:
            self._follow(slot, slot.mean_s, slot.usual_s or slot.mean_s)
        else:
            self.begin(slot)

    def measure(self, slot: Slot, sample_s: float) -> None:
        """Believe half of what the sample says, on a logarithmic scale. Hot.

        When durations change by a factor of 1,000, five samples bring the mean within 25 %; and one straggler of a
        thousand times the usual length distorts it for as few, where an arithmetic mean would remember it for dozens.
        """
        if sample_s < BRIEFEST_S:
            sample_s = BRIEFEST_S
        mean_s = sample_s if slot.mean_s is None else sqrt(slot.mean_s * sample_s)
        slot.mean_s = mean_s
        # What is usual learns upwards more slowly: a straggler must not make the next one look normal.
        usual_s = slot.usual_s
        if usual_s is not None:
            usual_s = sqrt(usual_s * sample_s) if sample_s < STRAGGLER * usual_s else ROOT_OF_STRAGGLER * usual_s
        else:
            usual_s = sample_s
        slot.usual_s = usual_s
        self._follow(slot, mean_s, usual_s)

    def _follow(self, slot: Slot, mean_s: float, usual_s: float) -> None:
        least = LEAST * slot.batch_size
        if mean_s * least >= TWO_FRAMES_S:
            slot.window = least
        else:
            wanted = int(TWO_FRAMES_S / mean_s)
            slot.window = wanted if wanted < MOST else MOST
        quiet_s = STALL_TIMES * slot.batch_size * usual_s
        if quiet_s < STALL_S:
            quiet_s = STALL_S
        slot.quiet_s = quiet_s if quiet_s < self._most_quiet_s else self._most_quiet_s


def stall_after_s(usual_s: float | None, together: int) -> float:
    """How long ``together`` tasks in one call may run before that is unusual."""
    return max(STALL_S, STALL_TIMES * together * (usual_s or 0.0))
