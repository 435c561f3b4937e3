"""The tasks that a slot was sent and has not answered for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice


class Held:
    """Oldest first, each once.

    Tasks come in frames and are nearly always answered in the order in which they came. So frames are kept as they come
    (most are ranges), and answers cut them from the front, after one comparison. Whatever is answered in another order
    makes one list of all that is left.
    """

    __slots__ = ("_frames", "count")

    def __init__(self) -> None:
        self._frames: list[Sequence[int]] = []  # few, so a deque would only take more memory
        self.count = 0
        """How many there are. An attribute, since it is asked for with every input."""

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._frames)

    def __contains__(self, task: object) -> bool:
        return any(task in frame for frame in self._frames)

    def add(self, tasks: Sequence[int]) -> None:
        self._frames.append(tasks)
        self.count += len(tasks)

    def remove(self, tasks: Sequence[int]) -> Sequence[int]:
        """Returns those that were here: of a range a part of it, since that is cheaper to go on with. Hot."""
        frames, count = self._frames, len(tasks)
        oldest = frames[0][:count] if frames and len(frames[0]) >= count else list(islice(self, count))
        if list(oldest) != list(tasks):
            return self._pick(tasks)
        self.count -= count
        while frames and count >= len(frames[0]):
            count -= len(frames.pop(0))
        if count:
            frames[0] = frames[0][count:]
        return oldest

    def clear(self) -> None:
        self._frames.clear()
        self.count = 0

    def _pick(self, tasks: Sequence[int]) -> Sequence[int]:
        left = dict.fromkeys(self)
        picked = [task for task in tasks if left.pop(task, self) is None]
        self.clear()
        if left:
            self.add(list(left))
        return picked
