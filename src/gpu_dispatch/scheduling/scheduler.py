"""The scheduler: one door, inputs in, actions out.

Rules for the editor
- Every unsettled task is in exactly one place: pending, delayed (waiting for a retry), in a suspect group, or held by
  one slot. A task leaves a slot only when its worker answered for it, gave it back, or is dead.
- Whoever is told of an outcome is told once: settling takes the task out of its place.
- Nothing here may cost more per task when there are more slots. What is linear in the slots runs at most once per
  ``window.STALL_S``, or when an idle slot looks for work at the end of a run.
- ``wake_at`` may be too early, never too late.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from gpu_dispatch.scheduling import actions as do
from gpu_dispatch.scheduling import inputs as told
from gpu_dispatch.scheduling import restarts
from gpu_dispatch.scheduling.history import Histories
from gpu_dispatch.scheduling.pending import PendingTasks
from gpu_dispatch.scheduling.settings import SchedulerSettings
from gpu_dispatch.scheduling.slot import Phase, Slot
from gpu_dispatch.scheduling.window import fair_share, stall_after_s, updated_mean, window

WORD_SLACK_S = 0.1
"""After the limit, the soft timeout has this long to end the task in its own words, before the parent says it timed
out. Less, and a loaded machine turns soft timeouts into hard ones; more, and the word comes late."""
NEVER = float("inf")
UNRESPONSIVE_S = 10.0
"""A worker that holds tasks but starts none for this long is broken (stopped, or its reader is dead)."""
KILL_PATIENCE_S = 5.0
"""A process not dead this long after SIGKILL sits in uninterruptible sleep: go on without it."""
WORTH_RECALLING_S = 0.005
"""Work queued behind a running task that would be done sooner than this is not worth moving."""


class Scheduler:
    def __init__(self, settings: SchedulerSettings) -> None:
        self.settings = settings
        self.slots = [Slot(number) for number in range(settings.slots)]
        self.wake_at: float | None = 0.0
        self._pending = PendingTasks()
        self._groups: deque[tuple[int, ...]] = deque()  # suspects of a crash, each group to be run as one batch
        self._delayed: list[tuple[float, int]] = []  # (ready_at, task) waiting for the end of a retry's back-off
        self._histories = Histories(settings.retry, settings.max_crashes)
        self._idle: dict[int, Slot] = {}  # ready, and holding nothing
        self._hungry: dict[int, Slot] = {}  # ready, and with room for another frame
        self._unsettled = 0
        self._held = 0  # tasks in slots
        self._busy = 0  # slots that hold tasks
        self._in_service = settings.slots
        self._starting = 0
        self._input_ended = False
        self._stop: told.StopAsked | None = None
        self._ended = False
        self._now = 0.0
        self._out: list[do.Action] = []
        self._doors: dict[type, Callable[[Any], None]] = {
            told.TasksSubmitted: self._on_submitted,
            told.InputEnded: self._on_input_ended,
            told.WorkerReady: self._on_ready,
            told.SetupRaised: self._on_setup_raised,
            told.TasksSucceeded: self._on_succeeded,
            told.TaskFailed: self._on_failed,
            told.TasksGivenBack: self._on_given_back,
            told.WorkerPeeked: self._on_peeked,
            told.WorkerDied: self._on_died,
            told.WorkerFinished: self._on_finished,
            told.StopAsked: self._on_stop,
            told.TimePassed: self._on_time,
        }

    def handle(self, what: told.Input, now: float) -> list[do.Action]:
        """Tell the scheduler a fact; get back what is to be done about it, in order."""
        self._now = now
        out: list[do.Action] = []
        self._out = out
        self._doors[type(what)](what)
        self._feed()
        if self._input_ended and not self._unsettled:
            self._wind_down()
        return out

    @property
    def queue_depth(self) -> int:
        """Tasks that wait for a slot."""
        return len(self._pending) + len(self._delayed) + sum(map(len, self._groups))

    @property
    def unsettled(self) -> int:
        return self._unsettled

    @property
    def wants_tasks(self) -> bool:
        """Whether a slot could take a task at once."""
        return bool(self._idle or self._hungry)

    @property
    def in_flight(self) -> int:
        """Tasks in slots."""
        return self._held

    @property
    def ended(self) -> bool:
        return self._ended

    def attempt(self, task_id: int) -> int:
        return self._histories.attempt(task_id)

    def places(self) -> dict[int, list[str]]:
        """Where each unsettled task is. For tests: every list must have exactly one element."""
        found: dict[int, list[str]] = {}
        for task in self._pending:
            found.setdefault(task, []).append("pending")
        for _, task in self._delayed:
            found.setdefault(task, []).append("delayed")
        for group in self._groups:
            for task in group:
                found.setdefault(task, []).append("group")
        for slot in self.slots:
            for task in slot.held:
                found.setdefault(task, []).append(f"slot {slot.number}")
        return found

    # --- input ---------------------------------------------------------------------------------------------

    def _on_submitted(self, what: told.TasksSubmitted) -> None:
        self._unsettled += len(what.task_ids)
        if self._stop is not None or not self._in_service:
            self._cancel(what.task_ids)
        else:
            self._pending.add(what.task_ids, what.costs)

    def _on_input_ended(self, _: told.InputEnded) -> None:
        self._input_ended = True

    # --- a worker's life -----------------------------------------------------------------------------------

    def _on_ready(self, what: told.WorkerReady) -> None:
        slot = self.slots[what.slot]
        if slot.phase is not Phase.STARTING:
            return
        self._starting -= 1
        slot.phase = Phase.READY
        slot.was_ready = True
        slot.deadline_at = None if self._stop is None else self._stop.drain_until
        slot.said_at = self._now
        self._note_room(slot)
        self._start_waiting()

    def _on_setup_raised(self, what: told.SetupRaised) -> None:
        slot = self.slots[what.slot]
        if slot.phase is not Phase.STARTING:
            return
        # A setup that raises on the very first start will raise again. One that has worked before deserves patience:
        # after a kill, the memory of the old process may not be free yet.
        self._leave_service_or_restart(slot, what.text, in_setup=True, hopeless=what.fatal or not slot.was_ready)

    def _on_died(self, what: told.WorkerDied) -> None:
        slot = self.slots[what.slot]
        phase, condemned, reason = slot.phase, slot.overdue, slot.kill_reason
        if not slot.in_service or phase is Phase.WAITING:
            return
        suspects = tuple(task for task in what.suspects if task in slot.held)
        bystanders = [task for task in slot.held if task not in suspects]
        self._empty(slot)
        if phase is Phase.STARTING or (phase is Phase.DYING and reason == "setup"):
            text = what.cause
            if reason == "setup":
                text = f"setup did not finish within {self.settings.setup_timeout:g} s and was killed.\n{what.cause}"
            self._leave_service_or_restart(slot, text, in_setup=True, hopeless=reason == "setup" and not slot.was_ready)
            return
        if phase is Phase.FINISHING or reason in ("unneeded", "cleanup"):
            self._leave_service(slot, Phase.GONE)
            return
        if reason == "drain":
            self._cancel((*suspects, *bystanders))
        elif reason == "timeout":
            guilty = tuple(task for task in suspects if task in condemned)
            self._give_back([task for task in suspects if task not in condemned])
            self._give_back(bystanders)
            self._judge(slot, guilty, "timeout", f"{what.cause}", killed_worker=True)
        elif reason == "poisoned":
            self._give_back((*suspects, *bystanders))
        else:
            self._give_back(bystanders)
            self._judge(slot, suspects, "crash", what.cause, killed_worker=True)
        # A worker that we killed because its task hung says nothing about the slot.
        self._leave_service_or_restart(slot, what.cause, in_setup=False, blameless=reason == "timeout")

    def _on_finished(self, what: told.WorkerFinished) -> None:
        slot = self.slots[what.slot]
        if slot.in_service:
            # A worker that ends by itself, with tasks in its hands, has been told to finish by nobody we know.
            self._give_back(list(slot.held))
            self._empty(slot)
            self._leave_service(slot, Phase.GONE)

    def _leave_service_or_restart(
        self, slot: Slot, text: str, *, in_setup: bool, hopeless: bool = False, blameless: bool = False
    ) -> None:
        if slot.phase is Phase.STARTING:
            self._starting -= 1
        if not blameless:
            slot.failures_in_a_row += 1
        if self._stop is not None or (self._input_ended and not self._unsettled):
            self._leave_service(slot, Phase.GONE)
            if in_setup and self._stop is None and not slot.was_ready:
                self._out.append(do.RetireSlot(slot.number, text, True))
        elif hopeless or restarts.give_up(
            slot.failures_in_a_row, max_restarts=self.settings.max_restarts, was_ready=slot.was_ready
        ):
            self._out.append(do.RetireSlot(slot.number, text, in_setup))
            self._leave_service(slot, Phase.RETIRED)
        else:
            slot.phase = Phase.WAITING
            self._set_deadline(slot, self._now + restarts.backoff_s(slot.failures_in_a_row))
        self._start_waiting()

    def _leave_service(self, slot: Slot, phase: Phase) -> None:
        slot.phase = phase
        slot.deadline_at = slot.check_at = None
        self._in_service -= 1
        if self._in_service:
            return
        if self._unsettled or not self._input_ended:
            # Every slot is retired and there is work left: tell each task so, rather than wait for ever.
            self._input_ended = True
            for task in (*self._pending.take_all(), *(t for _, t in self._delayed), *self._take_groups()):
                self._settle_failure(-1, task, "error", "lost", "no worker is left to run this task")
            self._delayed.clear()
            self._end(no_worker_left=self._stop is None)

    def _start_waiting(self) -> None:
        """Start the workers whose turn has come."""
        limit = self.settings.setup_concurrency or len(self.slots)
        for slot in self.slots:
            if self._starting >= limit:
                return
            if slot.phase is Phase.WAITING and slot.deadline_at is not None and slot.deadline_at <= self._now:
                self._starting += 1
                slot.phase = Phase.STARTING
                slot.starts += 1
                slot.kill_reason = None
                timeout = self.settings.setup_timeout
                slot.deadline_at = None
                if timeout is not None:
                    self._set_deadline(slot, self._now + timeout)
                self._out.append(do.StartWorker(slot.number))

    def _kill(self, slot: Slot, reason: str, text: str, *, grace_s: float = 0.0) -> None:
        if slot.phase is Phase.STARTING:
            self._starting -= 1
        slot.phase = Phase.DYING
        slot.kill_reason = reason
        slot.check_at = None
        self._forget_room(slot)
        self._set_deadline(slot, self._now + grace_s + KILL_PATIENCE_S)
        self._out.append(do.KillWorker(slot.number, text, grace_s))

    # --- a task's fate -------------------------------------------------------------------------------------

    def _on_succeeded(self, what: told.TasksSucceeded) -> None:
        slot = self.slots[what.slot]
        held = slot.held
        accepted = what.task_ids
        try:
            for task in accepted:
                del held[task]
        except KeyError:  # a late answer for a task that was told as timed out
            accepted = self._answered(slot, what.task_ids)
        count = len(accepted)
        self._progress(slot, what.busy_s, count)
        if count:
            self._held -= count
            self._unsettled -= count
            self._histories.forget_all(accepted)
            self._out.append(do.SettleSuccess(slot.number, accepted))
        self._note_room(slot)

    def _on_failed(self, what: told.TaskFailed) -> None:
        slot = self.slots[what.slot]
        accepted = self._answered(slot, (what.task_id,))
        if what.kind == "error":
            self._progress(slot, what.busy_s, 1)
        else:
            slot.said_at = self._now
        if accepted:
            del slot.held[what.task_id]
            self._held -= 1
            if slot.stalled_on == what.task_id:
                slot.stalled_on = None
            self._judge(slot, accepted, what.kind, what.text, killed_worker=False, type_names=what.type_names)
        if what.kind == "poisoned" and slot.phase is Phase.READY:
            self._kill(slot, "poisoned", f"its GPU context is broken: {what.text[-200:]}")
        self._note_room(slot)

    def _answered(self, slot: Slot, task_ids: Iterable[int]) -> list[int]:
        """Those of ``task_ids`` that are still waiting for an answer of this slot. Forgives late ones."""
        task_ids = list(task_ids)
        if slot.overdue:
            slot.overdue = tuple(task for task in slot.overdue if task not in task_ids)
        return [task for task in task_ids if task in slot.held]

    def _progress(self, slot: Slot, busy_s: float, count: int) -> None:
        if count:
            slot.mean_s = updated_mean(slot.mean_s, busy_s / count, count)
        slot.failures_in_a_row = 0
        slot.said_at = self._now
        if slot.stalled_on is not None and slot.stalled_on not in slot.held:
            slot.stalled_on = None

    def _judge(
        self,
        slot: Slot,
        tasks: tuple[int, ...] | list[int],
        kind: str,
        text: str,
        *,
        killed_worker: bool,
        type_names: tuple[str, ...] = (),
    ) -> None:
        """One task: retry or settle it. Several that failed together: halve them until the guilty one is alone."""
        if len(tasks) > 1:
            if self._stop is not None:
                self._cancel(tasks)
                return
            middle = (len(tasks) + 1) // 2
            self._groups.append(tuple(tasks[:middle]))
            self._groups.append(tuple(tasks[middle:]))
            return
        for task in tasks:
            attempt = self._histories.attempt(task)
            retry = self._stop is None and self._histories.allows_retry(task, kind, type_names)
            if not retry:
                word = "timeout" if kind == "timeout" else "error"
                self._settle_failure(slot.number, task, word, kind, text)
                continue
            self._histories.record(task, kind, killed_worker=killed_worker)
            self._out.append(do.RetryTask(slot.number, task, attempt, kind, text))
            delay = 0.0 if kind == "poisoned" else self._histories.delay_s(task)
            if delay:
                heapq.heappush(self._delayed, (self._now + delay, task))
                self._wake_by(self._now + delay)
            else:
                self._pending.put_back((task,))

    def _settle_failure(self, slot: int, task: int, word: str, kind: str, text: str) -> None:
        self._unsettled -= 1
        attempt = self._histories.attempt(task)
        self._histories.forget(task)
        self._out.append(do.SettleFailure(slot, task, word, kind, text, attempt))

    def _cancel(self, tasks: Iterable[int]) -> None:
        reason = "no worker is left" if self._stop is None else self._stop.reason
        for task in tasks:
            self._settle_failure(-1, task, "cancelled", "cancelled", f"Cancelled: {reason}")

    # --- moving tasks --------------------------------------------------------------------------------------

    def _on_given_back(self, what: told.TasksGivenBack) -> None:
        slot = self.slots[what.slot]
        slot.recalling = False
        returned = [task for task in what.task_ids if task in slot.held]
        for task in returned:
            del slot.held[task]
        self._held -= len(returned)
        self._give_back(returned)
        self._note_room(slot)

    def _give_back(self, tasks: Iterable[int]) -> None:
        if self._stop is None:
            self._pending.put_back(tasks)
        else:
            self._cancel(tasks)

    def _empty(self, slot: Slot) -> None:
        """Take everything out of a slot whose worker is gone; the caller has put the tasks elsewhere."""
        self._held -= len(slot.held)
        slot.held.clear()
        if slot.busy:
            slot.busy = False
            self._busy -= 1
        slot.overdue = ()
        slot.stalled_on = None
        slot.recalling = False
        slot.check_at = None
        self._forget_room(slot)

    def _feed(self) -> None:
        """Give waiting tasks to slots with room, idle ones first; or let an idle slot take from a busy one."""
        if self._delayed and self._delayed[0][0] <= self._now:
            while self._delayed and self._delayed[0][0] <= self._now:
                self._pending.put_back((heapq.heappop(self._delayed)[1],))
        if self._groups:
            self._send_groups()
        pending = self._pending
        while pending:
            if self._idle:
                slot = next(iter(self._idle.values()))
            elif self._hungry:
                slot = next(iter(self._hungry.values()))
            else:
                return
            room = self._room(slot)
            if room <= 0:
                self._forget_room(slot)
                continue
            share = -(-len(pending) // (len(self._idle) + len(self._hungry)))
            self._send(slot, pending.take(min(room, max(1, share))))
        if self._idle and self._held > self._busy and self._stop is None:
            self._recall_for_idle()

    def _send_groups(self) -> None:
        while self._groups and self._idle:
            slot = next(iter(self._idle.values()))
            self._send(slot, self._groups.popleft(), together=True)

    def _send(self, slot: Slot, tasks: list[int] | tuple[int, ...], *, together: bool = False) -> None:
        if not slot.busy:
            slot.busy = True
            self._busy += 1
            slot.said_at = self._now
        slot.held.update(dict.fromkeys(tasks))
        self._held += len(tasks)
        self._out.append(do.SendTasks(slot.number, tasks, together))
        self._watch(slot)
        self._idle.pop(slot.number, None)
        if self._room(slot) <= 0 or together:
            self._hungry.pop(slot.number, None)
        else:
            self._hungry[slot.number] = slot

    def _window(self, slot: Slot) -> int:
        fixed = self.settings.fixed_window
        if fixed is not None:
            return fixed
        share = fair_share(self._unsettled, self._in_service, input_ended=self._input_ended)
        return min(window(slot.mean_s, self.settings.batch_size), max(share, self.settings.batch_size))

    def _room(self, slot: Slot) -> int:
        """How many more tasks this slot should get now; 0 while more than half of its window is full."""
        limit = self._window(slot)
        held = len(slot.held)
        if held * 2 > limit and held:
            return 0
        return limit - held

    def _note_room(self, slot: Slot) -> None:
        """Called after a slot's load went down: it may be idle or hungry now."""
        number = slot.number
        if not slot.held:
            if slot.check_at is not None:
                slot.check_at = None
                slot.recalling = False
            if slot.busy:
                slot.busy = False
                self._busy -= 1
        else:
            self._watch(slot)
        if slot.phase is not Phase.READY or slot.overdue or slot.stalled_on is not None:
            self._forget_room(slot)
        elif not slot.held:
            self._hungry.pop(number, None)
            self._idle[number] = slot
        elif self._room(slot) > 0:
            self._hungry[number] = slot

    def _forget_room(self, slot: Slot) -> None:
        self._idle.pop(slot.number, None)
        self._hungry.pop(slot.number, None)

    def _recall_for_idle(self) -> None:
        """An idle slot and nothing pending: take unstarted tasks back from the slot with the longest queue."""
        victim, most = None, WORTH_RECALLING_S
        for slot in self.slots:
            if slot.recalling or slot.phase is not Phase.READY or len(slot.held) < 2:
                continue
            behind_s = (len(slot.held) - 1) * (slot.mean_s if slot.mean_s is not None else 1.0)
            if behind_s > most and slot.barren_at != slot.said_at:
                victim, most = slot, behind_s
        if victim is not None:
            self._recall(victim, max(1, len(victim.held) // 2))

    def _recall(self, slot: Slot, count: int) -> None:
        slot.recalling = True
        slot.barren_at = slot.said_at  # asked once; again only after it has made progress
        self._out.append(do.RecallTasks(slot.number, count))

    # --- watching ------------------------------------------------------------------------------------------

    def _watch(self, slot: Slot) -> None:
        """Set the instant at which a quiet worker is looked at."""
        timeout = self.settings.task_timeout
        quiet_s = stall_after_s(slot.mean_s) if len(slot.held) > 1 else UNRESPONSIVE_S
        if timeout is not None and timeout + WORD_SLACK_S < quiet_s:
            quiet_s = timeout + WORD_SLACK_S
        slot.check_at = slot.said_at + quiet_s
        self._wake_by(slot.check_at)

    def _on_peeked(self, what: told.WorkerPeeked) -> None:
        slot = self.slots[what.slot]
        if slot.phase is not Phase.READY or not (slot.held or slot.overdue):
            return
        if not what.running or what.since is None or what.since == NEVER:
            if what.unread:
                slot.said_at = self._now
            self._see_no_progress(slot, writing=bool(what.running))
            return
        check_at = self._see_stall(slot, what.running, what.since)
        timeout = self.settings.task_timeout
        if timeout is not None:
            limit_at = self._see_limit(slot, what.running, what.since + timeout)
            check_at = limit_at if check_at is None or limit_at is None else min(check_at, limit_at)
        slot.check_at = check_at
        if check_at is not None:
            self._wake_by(check_at)

    def _see_no_progress(self, slot: Slot, *, writing: bool) -> None:
        """It runs nothing, though it has tasks; or is stuck in the middle of writing a result."""
        quiet_s = self._now - slot.said_at
        if quiet_s >= UNRESPONSIVE_S:
            what = "is in the middle of writing a result" if writing else f"holds {len(slot.held)} tasks"
            self._kill(slot, "unresponsive", f"it {what} and has said nothing for {quiet_s:.0f} s")
            return
        if len(slot.held) > 1 and not slot.recalling and quiet_s >= stall_after_s(slot.mean_s):
            self._recall(slot, 0)  # finished results may be waiting in it: ask for them
        # It may start one at any moment: look again, but ever more rarely.
        slot.check_at = self._now + max(stall_after_s(None), min(quiet_s, UNRESPONSIVE_S - quiet_s))
        self._wake_by(slot.check_at)

    def _see_stall(self, slot: Slot, running: tuple[int, ...], since: float) -> float | None:
        """Nothing may wait behind a task that takes far longer than expected. Returns when to look again."""
        if len(slot.held) <= len(running) or slot.stalled_on is not None:
            return None
        stalled_at = max(since, slot.said_at) + stall_after_s(slot.mean_s)
        if self._now < stalled_at:
            return stalled_at
        slot.stalled_on = running[0]
        self._forget_room(slot)
        others = self._in_service > 1
        if not slot.recalling:
            # Even with nobody to move them to, ask: the answer brings results that are finished but not sent.
            self._recall(slot, len(slot.held) if others else 0)
        return None

    def _see_limit(self, slot: Slot, running: tuple[int, ...], limit_at: float) -> float | None:
        """Past the limit: say so, and later kill. Returns when to look again."""
        kill_at = limit_at + self.settings.timeout_grace
        word_at = min(limit_at + WORD_SLACK_S, kill_at)
        if self._now >= kill_at:
            text = f"task {running[0]} was still running {self.settings.timeout_grace:g} s after its time limit"
            slot.overdue = running
            self._kill(slot, "timeout", text)
            return None
        if self._now < word_at:
            return word_at
        if not slot.overdue and len(running) == 1 and not self._histories.allows_retry(running[0], "timeout"):
            # No attempt will follow, so the word need not wait until the worker answers or is killed.
            task = running[0]
            if task in slot.held:
                del slot.held[task]
                self._held -= 1
                self._settle_failure(slot.number, task, "timeout", "timeout", "no answer at the time limit")
            slot.overdue = running
            if slot.held and not slot.recalling:
                self._recall(slot, len(slot.held))
            self._note_room(slot)
        return kill_at

    def _on_time(self, _: told.TimePassed) -> None:
        now = self._now
        if self._in_service and not self._ended:
            self._start_waiting()
        for slot in self.slots:
            if slot.check_at is not None and slot.check_at <= now:
                slot.check_at = None
                self._out.append(do.PeekWorker(slot.number))
            if slot.deadline_at is not None and slot.deadline_at <= now:
                self._on_phase_deadline(slot)
        self._recompute_wake()

    def _on_phase_deadline(self, slot: Slot) -> None:
        phase = slot.phase
        if phase is Phase.WAITING:  # its turn to start has come; _start_waiting does that within its limit
            return
        slot.deadline_at = None
        if phase is Phase.STARTING and self._input_ended and not self._unsettled:
            self._kill(slot, "unneeded", "the run is over")
        elif phase is Phase.STARTING:
            self._kill(slot, "setup", f"its setup did not finish within {self.settings.setup_timeout:g} s")
        elif phase is Phase.READY:
            self._kill(slot, "drain", "the drain deadline has passed")
        elif phase is Phase.FINISHING:
            self._kill(slot, "cleanup", "its cleanup did not finish in time")
        elif phase is Phase.DYING:
            self._give_up_undead(slot)

    def _give_up_undead(self, slot: Slot) -> None:
        """SIGKILL did not end it: uninterruptible sleep, usually a driver. Its GPU is lost for this run."""
        tasks = tuple(slot.held)
        self._empty(slot)
        text = "the worker could not be killed (it sits in the kernel or a driver); its GPU is out of service"
        for task in tasks:
            self._settle_failure(slot.number, task, "error", "lost", text)
        self._out.append(do.RetireSlot(slot.number, text, False))
        self._leave_service(slot, Phase.RETIRED)

    def _set_deadline(self, slot: Slot, at: float) -> None:
        slot.deadline_at = at
        self._wake_by(at)

    def _wake_by(self, at: float) -> None:
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at

    def _recompute_wake(self) -> None:
        waiting_for_turn = self._starting >= (self.settings.setup_concurrency or len(self.slots))
        instants = [
            slot.deadline_at
            for slot in self.slots
            if slot.deadline_at is not None and not (slot.phase is Phase.WAITING and waiting_for_turn)
        ]
        instants += [slot.check_at for slot in self.slots if slot.check_at is not None]
        instants += [at for at, _ in self._delayed[:1]]
        self.wake_at = min(instants, default=None)

    # --- the end -------------------------------------------------------------------------------------------

    def _on_stop(self, what: told.StopAsked) -> None:
        if self._stop is not None:
            what = told.StopAsked(min(what.drain_until, self._stop.drain_until), self._stop.reason)
        self._stop = what
        self._input_ended = True
        self._cancel(self._pending.take_all())
        self._cancel(task for _, task in self._delayed)
        self._delayed.clear()
        self._cancel(self._take_groups())
        for slot in self.slots:
            if slot.phase is Phase.WAITING:
                self._leave_service(slot, Phase.GONE)
            elif slot.phase is Phase.STARTING:
                self._kill(slot, "unneeded", "the run was stopped")
            elif slot.phase is Phase.READY:
                self._set_deadline(slot, what.drain_until)
                if len(slot.held) > 1:
                    self._recall(slot, len(slot.held))
            elif slot.phase is Phase.FINISHING and slot.deadline_at is not None:
                self._set_deadline(slot, min(slot.deadline_at, what.drain_until))

    def _take_groups(self) -> list[int]:
        tasks = [task for group in self._groups for task in group]
        self._groups.clear()
        return tasks

    def _wind_down(self) -> None:
        """All tasks are settled and none will come: let the workers clean up, and end when they are gone."""
        if self._in_service:
            for slot in self.slots:
                if slot.phase is Phase.READY and not slot.held and not slot.overdue:
                    slot.phase = Phase.FINISHING
                    self._forget_room(slot)
                    until = self._now + self.settings.cleanup_timeout
                    if self._stop is not None:
                        until = min(until, max(self._stop.drain_until, self._now))
                    self._set_deadline(slot, until)
                    self._out.append(do.FinishWorker(slot.number))
                elif slot.phase is Phase.STARTING:
                    # Its cleanup is owed once its setup is done, but the run does not wait for a long one.
                    until = self._now + self.settings.cleanup_timeout
                    if slot.deadline_at is None or slot.deadline_at > until:
                        self._set_deadline(slot, until)
                elif slot.phase is Phase.WAITING:
                    self._leave_service(slot, Phase.GONE)
        if not self._in_service:
            self._end(no_worker_left=False)

    def _end(self, *, no_worker_left: bool) -> None:
        if not self._ended:
            self._ended = True
            self.wake_at = None
            self._out.append(do.EndRun(no_worker_left))
