"""One worker process as the parent sees it: its birth, its channel, its death.

Every worker leads a session of its own, so that a kill reaches its whole tree. Its environment is complete at birth.
Nothing secret is on its command line: everything it needs comes through the channel.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping

import gpu_dispatch
from gpu_dispatch.backends.causes import describe_death
from gpu_dispatch.backends.output import OutputPump
from gpu_dispatch.transport.arena import ArenaReader, ArenaWriter, create_arena_file
from gpu_dispatch.transport.board import BoardReader, create_board_file
from gpu_dispatch.transport.channel import Channel, channel_pair
from gpu_dispatch.transport.codec import Packer

LAST_WORDS_S = 0.05
"""How long a death waits for the last lines of stderr: they are there at once, unless a grandchild holds the pipe."""

_PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.realpath(gpu_dispatch.__file__)))
_STUB = "import sys;sys.path[0]={root!r};from gpu_dispatch.runtime.entry import main;main({fds})"


class WorkerProcess:
    """One life of a worker. Thrown away, with its channel and its shared memory, when that life ends."""

    def __init__(
        self,
        worker_id: int,
        who: str,
        env: Mapping[str, str],
        pump: OutputPump,
        *,
        arena_bytes: int,
        main_is_known: bool,
    ) -> None:
        self.who = who
        self.kill_reason: str | None = None
        self.kill_at = 0.0
        self.kill_at_reason: str | None = None
        self.finished = False
        # The worker's ends are ours to close whatever happens; our own, and the process, only if this fails half-way.
        with contextlib.ExitStack() as ends, contextlib.ExitStack() as undo:
            ours, theirs = channel_pair()
            undo.callback(ours.close)
            ends.callback(theirs.close)
            board_fd = create_board_file()
            ends.callback(os.close, board_fd)
            items_fd = create_arena_file(arena_bytes)
            ends.callback(os.close, items_fd)
            results_fd = create_arena_file(arena_bytes)
            ends.callback(os.close, results_fd)
            lifeline_read, self._lifeline = _pipe(ends, undo)
            out_read, out_write = _pipe(undo, ends)
            err_read, err_write = _pipe(undo, ends)
            self.channel = Channel(ours)
            self.board = BoardReader(board_fd)
            undo.callback(self.board.close)
            self._items = ArenaWriter(items_fd)
            undo.callback(self._items.close)
            self.packer = Packer(self._items, main_is_known=main_is_known)
            self.results = ArenaReader(results_fd)
            undo.callback(self.results.close)
            fds = (theirs.fileno(), board_fd, lifeline_read, items_fd, results_fd)
            self._popen = subprocess.Popen(
                _command(fds),
                stdin=subprocess.DEVNULL,
                stdout=out_write,
                stderr=err_write,
                env=dict(env),
                pass_fds=fds,
                start_new_session=True,
            )
            self.pid = self._popen.pid
            undo.callback(self._popen.wait)
            undo.callback(self.signal_tree, signal.SIGKILL)
            self.pidfd = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else -1
            if self.pidfd >= 0:
                undo.callback(os.close, self.pidfd)
            self.tail = pump.add(worker_id, out_read, err_read)  # last: from here on the pump closes these two
            undo.pop_all()
        _alive.add(self)

    def signal_tree(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signum)

    def has_exited(self) -> bool:
        """Without reaping: the process group must stay ours until its last member has been killed."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def bury(self, patience_s: float | None = None) -> str:
        """Call once the process has exited: ends what it left behind; returns what to tell about its death."""
        self.signal_tree(signal.SIGKILL)
        try:
            code = self._popen.wait(patience_s)
        except subprocess.TimeoutExpired:
            _undead[:] = [*(popen for popen in _undead if popen.poll() is None), self._popen]
            return f"{self.who} (pid {self.pid}) could not be killed."
        tail = self.tail.text(LAST_WORDS_S)
        return describe_death(self.who, self.pid, code, kill_reason=self.kill_reason, tail=tail)

    def close(self) -> None:
        _alive.discard(self)
        self.channel.close()
        self.board.close()
        self._items.close()
        self.results.close()
        os.close(self._lifeline)
        if self.pidfd >= 0:
            os.close(self.pidfd)


_alive: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()
_undead: list[subprocess.Popen[bytes]] = []
"""Processes that SIGKILL did not end; kept so that they can be reaped when a later run looks at them."""


def _let_go_after_fork() -> None:
    """A child that somebody forks from this process has copies of our ends: workers would take it for their parent."""
    for process in list(_alive):
        os.close(process._lifeline)
        process.channel.close()
    _alive.clear()


os.register_at_fork(after_in_child=_let_go_after_fork)


def _pipe(of_reader: contextlib.ExitStack, of_writer: contextlib.ExitStack) -> tuple[int, int]:
    """(reading end, writing end), each to be closed by its stack."""
    reading, writing = os.pipe()
    of_reader.callback(os.close, reading)
    of_writer.callback(os.close, writing)
    return reading, writing


def _command(fds: tuple[int, ...]) -> list[str]:
    if not sys.executable:
        raise OSError("sys.executable is not set: a program that embeds Python must say where the interpreter is")
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
    return [sys.executable, *flags, "-c", _STUB.format(root=_PACKAGE_ROOT, fds=",".join(map(str, fds)))]
