"""Workers in the calling process and thread: for debuggers, profilers and tests of a worker's logic.

The same runtime runs the tasks (timeouts in Python code, batches, I/O threads, failures), but nothing is isolated:
no device mask, and a worker that kills its process kills yours.
"""

from __future__ import annotations

import os
import pickle
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_dispatch.backends.contract import Died, ItemRefused, Said, Sent
from gpu_dispatch.backends.opening import take_rows
from gpu_dispatch.backends.sending import pack_each
from gpu_dispatch.runtime.entry import bring_up, in_batches, make_runner
from gpu_dispatch.runtime.failures import clip, render
from gpu_dispatch.runtime.mailbox import Mailbox
from gpu_dispatch.runtime.outbox import Outbox
from gpu_dispatch.transport.arena import ArenaReader, create_arena_file
from gpu_dispatch.transport.board import Board, create_board_file
from gpu_dispatch.transport.codec import Packer
from gpu_dispatch.transport.rows import read_frame
from gpu_dispatch.wire import Boot, CleanupRaised, GivenBack, Ready, RunTasks, SetupRaised
from gpu_dispatch.worker import BaseWorker

LONGEST_NAP_S = 0.05
"""While it waits for the end of a retry's pause: short, because nobody can wake it."""


class InlineBackend:
    def __init__(self, worker_cls: type[BaseWorker]) -> None:
        self._worker_cls = worker_cls
        self._workers: dict[int, _InlineWorker] = {}
        self._said: deque[tuple[int, Said]] = deque()

    def start(self, slot: int, boot: Boot) -> None:
        try:
            worker = bring_up(self._worker_cls, boot)
        except Exception as error:
            self._said += ((slot, SetupRaised(clip(render(error)))), (slot, Died("its setup raised", (), False)))
            return
        self._workers[slot] = _InlineWorker(slot, boot, worker, self._said)
        self._said.append((slot, Ready(0.0, os.getpid())))

    def send_tasks(self, slot: int, task_ids: Sequence[int], items: Sequence[Any], *, together: bool) -> Sent:
        return Sent(self._workers[slot].deliver(task_ids, items, together=together))

    def recall_tasks(self, slot: int, count: int) -> None:
        self._workers[slot].give_back(count)

    def finish(self, slot: int) -> None:
        self._workers.pop(slot).finish()

    def kill(self, slot: int, reason: str, grace_s: float) -> None:
        worker = self._workers.pop(slot, None)
        if worker is not None:
            worker.close()
        self._said.append((slot, Died(f"the inline worker was given up because {reason}", (), False)))

    def running(self, slot: int) -> tuple[tuple[int, ...], float | None]:
        return (), None

    def running_since(self, slot: int) -> Mapping[int, float]:
        return {}

    def memory(self, slots: Sequence[int]) -> tuple[int, int, int | None] | None:
        return None

    def wait(self, timeout_s: float | None, *, read_results: bool) -> list[tuple[int, Said]]:
        """Nobody works while we wait, so work: run what one worker holds."""
        if not self._said:
            busy = next((worker for worker in self._workers.values() if worker.has_tasks), None)
            if busy is not None:
                busy.run()
            elif timeout_s:
                time.sleep(min(timeout_s, LONGEST_NAP_S))
        said = list(self._said)
        self._said.clear()
        return said

    def wake(self) -> None:
        pass

    def pid(self, slot: int) -> int | None:
        return os.getpid() if slot in self._workers else None

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()


class _InlineWorker:
    """One worker, and a runtime around it whose channel leads straight back."""

    def __init__(self, slot: int, boot: Boot, worker: BaseWorker, said: deque[tuple[int, Said]]) -> None:
        self._slot = slot
        self._boot = boot
        self._worker = worker
        self._said = said
        self._board_fd, self._arena_fd = create_board_file(), create_arena_file(0)
        self._board = Board(self._board_fd)
        self._arena = ArenaReader(self._arena_fd)
        self._mailbox = Mailbox(self._arena, in_batches=in_batches(boot, worker))
        self._packer = Packer(None)
        self._outbox = Outbox(self, self._board, self._packer)
        self._waiting = 0

    @property
    def has_tasks(self) -> bool:
        return self._waiting > 0

    def deliver(self, task_ids: Sequence[int], items: Sequence[Any], *, together: bool) -> list[ItemRefused]:
        refused: list[ItemRefused] = []
        # As they would travel: no shared state, the same errors.
        accepted, packed = pack_each(self._packer, task_ids, items, refused)
        self._mailbox.deliver(RunTasks(tuple(accepted), ("each", packed), together))
        self._waiting += len(accepted)
        return refused

    def give_back(self, count: int) -> None:
        returned = tuple(self._mailbox.give_back(count))
        self._waiting -= len(returned)
        self._said.append((self._slot, GivenBack(returned)))

    def run(self) -> None:
        """Run everything that was delivered."""
        self._waiting = 0
        self._mailbox.finish()
        try:
            mailbox = self._mailbox
            make_runner(self._boot, self._worker, mailbox, self._outbox, self._board, self, mailbox.wait).run()
        finally:
            self._mailbox.finishing = False

    def finish(self) -> None:
        try:
            self._worker.cleanup()
        except Exception as error:
            text = clip(render(error))
            self._said.append((self._slot, CleanupRaised(text)))
        self.close()
        self._said.append((self._slot, Died("finished", (), True)))

    def close(self) -> None:
        self._arena.close()
        os.close(self._board_fd)
        os.close(self._arena_fd)

    # --- the channel, as the runtime sees it ---------------------------------------------------------------

    def send(self, message: Any) -> None:
        self._said.append((self._slot, pickle.loads(pickle.dumps(message))))

    def send_frame(self, kind: int, *parts: Any) -> None:
        _, rows = read_frame(memoryview(b"".join(parts)))
        self._said.append((self._slot, take_rows(rows, self._arena, 0)))
