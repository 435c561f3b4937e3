"""Results as JSON lines, each written whole and at once.

Guarantees
- A line is one ``write``: a reader with ``tail -f`` never sees half of one. Where a write is cut short (disk full),
  a file is taken back to its last whole line.
- A file that holds something is never overwritten unasked, and not before there is a first result to put in its place.
- With ``-o -`` nothing but results reaches stdout: whatever else this process or its workers print goes to stderr.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from gpu_dispatch.cli.jsonify import to_json
from gpu_dispatch.errors import UsageError

STDOUT = "-"


class JsonLines:
    """Where results go. Lines may be written from any thread."""

    def __init__(self, path: str, *, overwrite: bool = False, append: bool = False) -> None:
        self.path = path
        self.written = 0
        self.dropped_half_line = False
        self._append = append
        self._overwrite = overwrite
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._is_file = False
        if path == STDOUT:
            self._fd = _private_stdout()
        else:
            _check(path, may_replace=overwrite or append)

    def write(self, record: Mapping[str, Any]) -> None:
        line = to_json(record) + b"\n"
        with self._lock:
            if self._fd is None:
                self._fd = self._open()
            self._write_whole(self._fd, line)
            self.written += 1

    def close(self) -> None:
        with self._lock:
            if self._fd is None:
                return
            if self.path == STDOUT:
                _flush_stdout()
                os.dup2(self._fd, 1)
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> int:
        _check(self.path, may_replace=self._overwrite or self._append)  # once more: another run may have begun since
        flags = os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        flags |= os.O_RDWR if self._append and os.path.isfile(self.path) else os.O_WRONLY
        if not os.path.exists(self.path):
            flags |= os.O_EXCL
        fd = os.open(self.path, flags, 0o666)
        self._is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        if self._is_file and self._overwrite:
            os.ftruncate(fd, 0)
        if self._is_file and self._append:
            self.dropped_half_line = _mend_last_line(fd)
        return fd

    def _write_whole(self, fd: int, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError as error:
            if self._is_file and len(rest) < len(line):
                os.ftruncate(fd, os.fstat(fd).st_size - (len(line) - len(rest)))
            raise type(error)(error.errno, error.strerror, "stdout" if self.path == STDOUT else self.path) from error


def _check(path: str, *, may_replace: bool) -> None:
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise UsageError(f"-o {path} is a folder; give a file: {os.path.join(path, 'out.jsonl')}")
    if not os.path.isdir(folder):
        raise UsageError(f"-o {path}: there is no folder {folder}")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(f"-o {path}: permission denied")
    if _holds(path) and not may_replace:
        raise UsageError(f"{path} exists already; give --append or --overwrite, or another name")


def _holds(path: str) -> bool:
    # An empty or a special file (`mktemp`, /dev/null, a named pipe) has nothing to lose.
    return os.path.isfile(path) and os.path.getsize(path) > 0


def _mend_last_line(fd: int) -> bool:
    """End the last line of a file that a killed process left; True if it was half a line and had to go."""
    end = os.lseek(fd, 0, os.SEEK_END)
    tail = b""
    begin = end
    while begin > 0 and b"\n" not in tail:
        begin = max(0, begin - max(65536, len(tail)))  # doubling: a last line of megabytes is read a few times only
        tail = os.pread(fd, end - begin, begin)
    last = tail[tail.rfind(b"\n") + 1 :]
    if not last:
        return False
    try:
        json.loads(last)
    except ValueError:
        os.ftruncate(fd, end - len(last))
        return True
    os.write(fd, b"\n")
    return False


def _private_stdout() -> int:
    """A descriptor of our own for what is stdout now; from here on stdout is stderr, for everybody else."""
    _flush_stdout()
    private = os.dup(1)
    os.dup2(2, 1)
    return private


def _flush_stdout() -> None:
    if sys.stdout is not None:  # a process may be started without one
        sys.stdout.flush()
