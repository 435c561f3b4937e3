"""What to tell a user about a process that is gone: what happened, what it likely means, what to do."""

from __future__ import annotations

import signal

_MEANING = {
    "SIGKILL": "often by the kernel's out-of-memory killer, which says so in dmesg",
    "SIGSEGV": "a crash in native code; the lines below may show where",
    "SIGBUS": "often a full /dev/shm or a truncated memory-mapped file",
    "SIGABRT": "native code called abort(), usually after printing why",
    "SIGILL": "a binary built for another CPU",
    "SIGTERM": "somebody asked it to end",
}


def describe_exit(code: int) -> str:
    """``Popen.returncode`` in words."""
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        meaning = _MEANING.get(name)
        return f"was killed by {name}" + (f" ({meaning})" if meaning else "")
    if code == 0:
        return "exited with code 0 in the middle of its work (os._exit, or an exit in native code)"
    return f"exited with code {code}"


def describe_death(who: str, pid: int, code: int, *, kill_reason: str | None, tail: str) -> str:
    how = describe_exit(code) if kill_reason is None else f"was killed because {kill_reason}"
    text = f"WorkerDied: {who} (pid {pid}) {how}."
    return f"{text}\nIts last output:\n{tail}" if tail else text
