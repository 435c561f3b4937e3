"""The first lines of a worker process: from inherited descriptors to the user's ``setup``.

The environment (device mask, thread caps) is already complete: it was set at the birth of the process, because user
modules are imported before any of our code could change it.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time

from gpu_dispatch.runtime import lifeline, main_module
from gpu_dispatch.runtime.c_signal import signal
from gpu_dispatch.runtime.flushing import Flusher
from gpu_dispatch.runtime.mailbox import Mailbox
from gpu_dispatch.runtime.outbox import Outbox
from gpu_dispatch.runtime.reading import Reader
from gpu_dispatch.runtime.runner import TaskRunner
from gpu_dispatch.transport.arena import ArenaReader, ArenaWriter
from gpu_dispatch.transport.board import Board
from gpu_dispatch.transport.codec import Packer
from gpu_dispatch.transport.pickling import loads
from gpu_dispatch.transport.worker_channel import WorkerChannel
from gpu_dispatch.wire import Boot, CleanupRaised, Finished, Ready, SetupRaised

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_dispatch.runtime.batches import BatchRunner
    from gpu_dispatch.runtime.outbox import Sender
    from gpu_dispatch.worker import BaseWorker


POISONED_EXIT = 70
"""Exit code of a worker whose GPU context is broken."""


def main(channel_fd: int, board_fd: int, lifeline_fd: int, items_fd: int, results_fd: int) -> None:
    """The whole life of a worker."""
    lifeline.tie_to_parent(lifeline_fd)
    _leave_interrupts_to_the_parent()
    _prepare_output()
    channel = WorkerChannel(channel_fd)
    board = Board(board_fd)
    items = ArenaReader(items_fd)
    for fd in (board_fd, items_fd):
        os.close(fd)
    received = channel.receive()
    if not received:
        return
    boot, *mail = received
    try:
        worker, setup_s = _set_up(boot)
    except BaseException as error:
        channel.send(SetupRaised(main_module.explain(error) or _text_of(error)))
        sys.exit(1)
    results = ArenaWriter(results_fd)
    mailbox = Mailbox(items, in_batches=in_batches(boot, worker))
    outbox = Outbox(channel, board, Packer(results))
    outbox.flush_soon = Flusher(outbox).ask
    channel.send(Ready(setup_s, os.getpid()))
    reader = Reader(channel, mailbox, outbox, lambda: worker.task_id)
    reader.handle(mail)
    reader.start(beside_main=not in_batches(boot, worker))
    if not make_runner(boot, worker, mailbox, outbox, board, channel, reader.read_until_mail).run():
        _flush_output()
        os._exit(POISONED_EXIT)  # a cleanup would only hang or fail in a broken context
    try:
        worker.cleanup()
    except BaseException as error:
        channel.send(CleanupRaised(_text_of(error)))
    _flush_output()
    channel.send(Finished())


def _leave_interrupts_to_the_parent() -> None:
    """Ctrl-C, and the SIGTERM that Slurm and systemd send to every process of a job, reach the parent as well, and it
    decides what becomes of us. A handler, because programs that we start would inherit that a signal is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: None)
    # Pools end their forked children by SIGTERM, perhaps at once: it waits until the child is ready to die of it.
    os.register_at_fork(before=_hold_sigterm, after_in_parent=_release_sigterm, after_in_child=_obey_sigterm)


def _hold_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))


def _release_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))


def _obey_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _release_sigterm()


def _set_up(boot: Boot) -> tuple[BaseWorker, float]:
    started = time.monotonic()
    if boot.plan.cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, boot.plan.cpus)
    sys.path[:] = boot.sys_path
    sys.argv[:] = boot.argv
    main_module.restore(boot.main_path, boot.main_name)
    return bring_up(loads(boot.worker_cls), boot), time.monotonic() - started


def bring_up(worker_cls: type[BaseWorker], boot: Boot) -> BaseWorker:
    """Make the user's worker and let it set itself up."""
    worker = worker_cls()
    worker.device = boot.device
    worker.worker_id = boot.worker_id
    worker.base_seed = boot.base_seed
    worker.setup(boot.gpu_id, boot.seed, **loads(boot.setup_kwargs))
    return worker


def in_batches(boot: Boot, worker: BaseWorker) -> bool:
    return boot.plan.batch_size is not None or hasattr(worker, "preprocess") or hasattr(worker, "postprocess")


def make_runner(
    boot: Boot,
    worker: BaseWorker,
    mailbox: Mailbox,
    outbox: Outbox,
    board: Board,
    channel: Sender,
    wait_for_mail: Callable[[], None],
) -> TaskRunner | BatchRunner:
    """One task at a time, unless the worker works in batches or overlaps I/O."""
    plan = boot.plan
    is_oom = None if plan.is_oom is None else loads(plan.is_oom)
    if not in_batches(boot, worker):
        announce = channel.send if plan.announce_starts else None
        return TaskRunner(worker, mailbox, outbox, board, boot.task_timeout, wait_for_mail, announce, is_oom)
    from gpu_dispatch.runtime.batches import BatchRunner  # only for those who need it: it brings a lot along

    cost, budget = (None, 0.0) if plan.batch_by is None else loads(plan.batch_by)
    return BatchRunner(
        worker, mailbox, outbox, board, channel, plan, boot.task_timeout, is_oom=is_oom, cost=cost, budget=budget
    )


def _text_of(error: BaseException) -> str:
    from gpu_dispatch.runtime.failures import clip, render

    return clip(render(error))


def _prepare_output() -> None:
    """Lines reach the parent as they are printed; a crash in native code leaves a traceback on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    try:
        faulthandler.enable()
    except (OSError, RuntimeError, AttributeError, ValueError):
        pass  # no usable stderr: then there is nowhere to write it


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # user code closed it
