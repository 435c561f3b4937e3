"""What has befallen a task so far, and whether that allows another attempt.

Most tasks have no history: only those that failed, crashed or timed out at least once are written down.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpu_dispatch.light import dataclass
from gpu_dispatch.options import RetryPolicy

BEFORE_ALL = float("-inf")


@dataclass(slots=True)
class History:
    attempts: int = 0
    """Attempts that failed."""
    failed_at: float = BEFORE_ALL
    """When the last of them was known to have failed."""
    crashes: int = 0
    """Workers that died, or had to be killed, with this task alone in their hands."""
    poisoned_on: int | None = None
    """The device whose context broke while the task ran there. It has had its second chance since."""


class Histories:
    """The histories of all unsettled tasks that have one."""

    __slots__ = ("_max_crashes", "_policy", "by_task")

    def __init__(self, policy: RetryPolicy, max_crashes: int) -> None:
        self.by_task: dict[int, History] = {}
        self._policy = policy
        self._max_crashes = max_crashes

    def of(self, task_id: int) -> History | None:
        return self.by_task.get(task_id)

    def attempt(self, task_id: int) -> int:
        """The number of the attempt that is going on, or comes next; 1 for a task without history."""
        history = self.by_task.get(task_id)
        return 1 if history is None else history.attempts + 1

    def allows_retry(self, task_id: int, kind: str, type_names: tuple[str, ...] = (), *, killed_worker: bool) -> bool:
        """Whether the task may be tried again, should the attempt that is going on fail with ``kind``."""
        history = self.by_task.get(task_id) or History()
        if kind == "poisoned":
            return history.poisoned_on is None
        if history.crashes + killed_worker >= self._max_crashes:
            return False
        return self._policy.allows(kind, type_names, history.attempts + 1)

    def record(self, task_id: int, now: float, *, killed_worker: bool, poisoned_on: int | None = None) -> None:
        history = self.by_task.setdefault(task_id, History())
        history.attempts += 1
        history.failed_at = now
        history.crashes += killed_worker
        if poisoned_on is not None:
            history.poisoned_on = poisoned_on

    def failed_at(self, task_id: int) -> float:
        """When the last attempt was known to have failed: the one that is going on has begun later."""
        history = self.by_task.get(task_id)
        return BEFORE_ALL if history is None else history.failed_at

    def delay_s(self, task_id: int) -> float:
        return self._policy.delay_s(max(1, self.attempt(task_id) - 1))

    def forget(self, task_id: int) -> None:
        self.by_task.pop(task_id, None)

    def close(self, task_ids: Iterable[int]) -> dict[int, int]:
        """These have succeeded. Returns at which attempt, for those that had failed before."""
        attempts = {task_id: self.attempt(task_id) for task_id in task_ids if task_id in self.by_task}
        for task_id in attempts:
            self.forget(task_id)
        return attempts
