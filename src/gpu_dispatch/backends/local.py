"""Workers as processes of this machine.

engine's loop ──► LocalBackend ──► WorkerProcess (channel, board, pidfd) ──► runtime/entry.py
                      ▲
      one poll over all channels, deaths (pidfd) and the wake-up; it never blocks elsewhere
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Mapping, Sequence

from gpu_dispatch.backends.contract import CannotStart, Died, ItemRefused, Said, Sent
from gpu_dispatch.backends.device_gate import LOOK_AGAIN_S, PATIENCE_S, DeviceGate
from gpu_dispatch.backends.opening import open_last_rows, open_message, take_rows
from gpu_dispatch.backends.output import OutputPump
from gpu_dispatch.backends.process import WorkerProcess
from gpu_dispatch.backends.sending import pack_each
from gpu_dispatch.backends.wake_pipe import WakePipe
from gpu_dispatch.devices import DeviceMonitor, Grant
from gpu_dispatch.transport.codec import pack_together, packed_size
from gpu_dispatch.transport.frames import BrokenFrame, FrameKind
from gpu_dispatch.transport.rows import read_frame
from gpu_dispatch.wire import Boot, Finish, Finished, RecallTasks, RunTasks

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any

CHECK_EXIT_S = 0.1
"""Where there is no pidfd (not Linux), how often exits are looked for."""

EXIT_S = 3.0
"""Between the end of a worker's cleanup and that of its process. A thread or an exit handler that some library left
behind would keep it for ever; a GPU framework needs a moment to let go of its card."""

UNDEAD_S = 5.0
"""A process that is still there so long after SIGKILL sits in a driver. The run ends without it."""

LONGEST_POLL_S = 86_400.0
"""Limits may be longer than a poll can be."""

DYING_S = 0.2
"""Between the end of a worker's channel and its death. A crash that dumps core takes a while to die."""


class LocalBackend:
    def __init__(
        self,
        grants: Sequence[Grant],
        worker_ids: Sequence[int],
        env: Mapping[str, str],
        pump: OutputPump,
        *,
        monitor: DeviceMonitor,
        main_is_imported: bool = False,
    ) -> None:
        self._grants = grants
        self._worker_ids = worker_ids
        self._env = env
        self._pump = pump
        self._processes: dict[int, WorkerProcess] = {}
        self._by_fd: dict[int, tuple[int, WorkerProcess]] = {}
        self._poll = select.poll()
        self._events: dict[int, int] = {}  # what is registered, to spare system calls
        self._reads_results = True
        self._doomed: set[WorkerProcess] = set()  # those with a time to be killed at
        self._wake_pipe = WakePipe()
        self._register(self._wake_pipe.fileno(), select.POLLIN)
        self._main_is_imported = main_is_imported
        self._monitor = monitor
        self._gate = DeviceGate(grants, monitor)
        self._postponed: dict[int, tuple[Boot, float]] = {}  # workers that wait for their device, until when
        self._early: list[tuple[int, Said]] = []  # what is to be said by the next wait
        self._closed = False

    # --- asked by the engine -------------------------------------------------------------------------------

    def start(self, slot: int, boot: Boot) -> None:
        """At once, or as soon as its device is fit for it."""
        self._postponed[slot] = (boot, time.monotonic() + PATIENCE_S)
        self._start_postponed()

    def _start_postponed(self) -> None:
        for slot, (boot, until) in list(self._postponed.items()):
            verdict = self._gate.judge(slot)
            if verdict.lost is not None:
                del self._postponed[slot]
                self._early += ((slot, CannotStart(verdict.lost)), (slot, Died(verdict.lost, (), False)))
            elif verdict.fit or time.monotonic() >= until:
                del self._postponed[slot]
                if not verdict.fit:
                    text = f"starts without waiting any longer for {verdict.waiting_for}"
                    self._pump.note(self._worker_ids[slot], text)
                try:
                    self._launch(slot, boot)
                except OSError as error:  # no descriptors, no memory, no processes left
                    text = f"the worker process could not be started: {error}"
                    self._early.append((slot, Died(text, (), False)))

    def _launch(self, slot: int, boot: Boot) -> None:
        grant, worker_id = self._grants[slot], self._worker_ids[slot]
        env = {**os.environ, **grant.env, **self._env}
        process = WorkerProcess(
            worker_id,
            f"worker {worker_id} on {grant.label}",
            env,
            self._pump,
            arena_bytes=boot.plan.arena_bytes,
            main_is_known=self._main_is_imported,
        )
        self._processes[slot] = process
        self._by_fd[process.channel.fileno()] = (slot, process)
        self._register(process.channel.fileno(), select.POLLIN if self._reads_results else 0)
        if process.pidfd >= 0:
            self._by_fd[process.pidfd] = (slot, process)
            self._register(process.pidfd, select.POLLIN)
        self._send(slot, boot)

    def send_tasks(self, slot: int, task_ids: Sequence[int], items: Sequence[Any], *, together: bool) -> Sent:
        process = self._processes.get(slot)
        if process is None:
            return Sent()  # it died a moment ago; its death is on its way and will move these tasks
        refused: list[ItemRefused] = []
        together_in_one = pack_together(items)
        if together_in_one is not None:
            payload: tuple[str, Any] = ("together", together_in_one)
            size = len(together_in_one)
        else:
            small = process.packer.pack_small(items)
            if small is not None:
                payload, size = ("each", small), sum(map(len, small))
            else:
                task_ids, packed = pack_each(process.packer, task_ids, items, refused)
                payload, size = ("each", packed), sum(map(packed_size, packed))
        if task_ids:
            if not isinstance(task_ids, range):  # which says as much in fewer bytes
                task_ids = tuple(task_ids)
            self._send(slot, RunTasks(task_ids, payload, together))
        return Sent(refused, size)

    def recall_tasks(self, slot: int, count: int) -> None:
        self._send(slot, RecallTasks(count))

    def finish(self, slot: int) -> None:
        self._send(slot, Finish())

    def kill(self, slot: int, reason: str, grace_s: float) -> None:
        if self._postponed.pop(slot, None) is not None:
            self._early.append((slot, Died(f"it was not started, because {reason}", (), False)))
        process = self._processes.get(slot)
        if process is None:
            return
        process.kill_reason = reason
        if grace_s > 0:
            process.signal_tree(signal.SIGTERM)
            self._kill_in(process, grace_s)
        else:
            process.signal_tree(signal.SIGKILL)

    def running(self, slot: int) -> tuple[tuple[int, ...], float | None]:
        process = self._processes.get(slot)
        if process is None:
            return (), None
        try:
            return process.board.oldest()
        except ValueError:  # closed between the two lines, by the loop
            return (), None

    def running_since(self, slot: int) -> Mapping[int, float]:
        process = self._processes.get(slot)
        return {} if process is None else process.board.running()

    def memory(self, slots: Sequence[int]) -> tuple[int, int, int | None] | None:
        physical = self._grants[slots[0]].physical
        answer = self._monitor.memory(physical[0]) if physical else None
        if answer is None:
            return None
        pids = {self._processes[slot].pid for slot in slots if slot in self._processes}
        holders = [p for p in self._monitor.processes(physical[0]) or () if p.pid in pids]
        ours = sum(p.used or 0 for p in holders) if holders else None
        return (*answer, ours)

    def pid(self, slot: int) -> int | None:
        process = self._processes.get(slot)
        return None if process is None else process.pid

    def wake(self) -> None:
        self._wake_pipe.wake()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._monitor.close()
        for process in self._processes.values():
            process.signal_tree(signal.SIGKILL)
        until = time.monotonic() + UNDEAD_S
        for process in self._processes.values():
            process.bury(max(0.0, until - time.monotonic()))
            process.close()
        self._processes.clear()
        self._by_fd.clear()
        self._wake_pipe.close()

    # --- waiting -------------------------------------------------------------------------------------------

    def wait(self, timeout_s: float | None, *, read_results: bool) -> list[tuple[int, Said]]:
        if read_results is not self._reads_results:
            self._reads_results = read_results
            for process in self._processes.values():
                self._watch(process)
        timeout_s = self._until_next_kill(timeout_s)
        if self._postponed:
            self._start_postponed()
            timeout_s = LOOK_AGAIN_S if timeout_s is None else min(timeout_s, LOOK_AGAIN_S)
        if self._early:
            timeout_s = 0.0
        ready = self._poll.poll(None if timeout_s is None else min(max(0, timeout_s), LONGEST_POLL_S) * 1000)
        said, self._early = self._early, []
        dead: dict[int, WorkerProcess] = {}
        for fd, events in ready:
            if fd == self._wake_pipe.fileno():
                self._wake_pipe.swallow()
                continue
            slot, process = self._by_fd[fd]
            if fd == process.pidfd:
                dead[slot] = process
                continue
            if events & select.POLLOUT:
                process.channel.flush()
                self._watch(process)
            if events & ~select.POLLOUT and not self._read(slot, process, said):
                self._on_channel_closed(process)
        if not hasattr(os, "pidfd_open"):
            dead.update((slot, p) for slot, p in self._processes.items() if p.has_exited())
        for slot, process in dead.items():
            self._take_last_words(slot, process, said)
        return said

    def _until_next_kill(self, timeout_s: float | None) -> float | None:
        """SIGKILL those whose grace is over; returns how long to wait at most."""
        for process in tuple(self._doomed):
            left = process.kill_at - time.monotonic()
            if left <= 0:
                self._doomed.discard(process)
                process.kill_reason = process.kill_reason or process.kill_at_reason
                process.signal_tree(signal.SIGKILL)
            else:
                timeout_s = left if timeout_s is None else min(timeout_s, left)
        if not hasattr(os, "pidfd_open"):
            timeout_s = CHECK_EXIT_S if timeout_s is None else min(timeout_s, CHECK_EXIT_S)
        return timeout_s

    def _read(self, slot: int, process: WorkerProcess, said: list[tuple[int, Said]]) -> bool:
        """Whether the channel is still open, and of use."""
        try:
            frames, is_open = process.channel.receive()
            for kind, body in frames:
                self._open(slot, process, kind, body, said)
        except BrokenFrame:  # user code wrote into our channel, or over our memory
            process.kill_at_reason = "its channel carried something that no worker says"
            return False
        return is_open

    def _open(
        self, slot: int, process: WorkerProcess, kind: int, body: memoryview, said: list[tuple[int, Said]]
    ) -> None:
        if kind != FrameKind.MESSAGE:
            first, rows = read_frame(body)
            answered = take_rows(rows, process.results, len(body))
            process.board.note_received(first, len(rows.ids))
            said.append((slot, answered))
            return
        message = open_message(body)
        if isinstance(message, Finished):
            process.finished = True
            self._kill_in(process, EXIT_S)
        else:
            said.append((slot, message))

    def _on_channel_closed(self, process: WorkerProcess) -> None:
        """Usually the process is dying and its pidfd says so next; if user code closed the channel, end it soon."""
        self._unregister(process.channel.fileno())
        if process.kill_reason is None and not process.finished:
            self._kill_in(process, DYING_S)
            process.kill_at_reason = process.kill_at_reason or "it closed its channel to the parent"

    def _take_last_words(self, slot: int, process: WorkerProcess, said: list[tuple[int, Said]]) -> None:
        while True:  # everything that is complete in the channel, then what is on the board
            before = len(said)
            if not self._read(slot, process, said) or len(said) == before:
                break
        rows = process.board.last_rows()
        if rows is not None:
            said.append((slot, open_last_rows(rows, process.results)))
        suspects = tuple(process.board.running())
        cause = process.bury()
        self._gate.worker_died(slot, process.pid)
        for fd in (process.channel.fileno(), process.pidfd):
            if fd >= 0:
                self._unregister(fd)
                self._by_fd.pop(fd, None)
        del self._processes[slot]
        self._doomed.discard(process)
        process.close()
        said.append((slot, Died(cause, suspects, process.finished)))

    def _send(self, slot: int, message: object) -> None:
        process = self._processes.get(slot)
        if process is not None:
            process.channel.send(message)
            if process.channel.has_backlog:
                self._watch(process)

    def _kill_in(self, process: WorkerProcess, seconds: float) -> None:
        process.kill_at = time.monotonic() + seconds
        self._doomed.add(process)

    def _watch(self, process: WorkerProcess) -> None:
        """Be told when there is something to read, or, if something is left to write, when that can go on."""
        fd = process.channel.fileno()
        if fd in self._events:
            reading = select.POLLIN if self._reads_results else 0
            self._register(fd, reading | (select.POLLOUT if process.channel.has_backlog else 0))

    def _register(self, fd: int, events: int) -> None:
        if self._events.get(fd) != events:
            self._events[fd] = events
            self._poll.register(fd, events)

    def _unregister(self, fd: int) -> None:
        if self._events.pop(fd, None) is not None:
            self._poll.unregister(fd)
