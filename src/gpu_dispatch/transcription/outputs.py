"""Writing a file so that it is there whole or not at all.

A reader never sees half a transcript, and neither does the next run after a power cut: the bytes are on the disk
before the name is.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

_SUFFIX = ".gpu-dispatch-part"
_FORGOTTEN_AFTER_S = 3600.0  # a write takes milliseconds; another machine's clock may be off by minutes


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8 and give it its name; an existing file (or symlink) of that name is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The name does not contain the target's, which may already be as long as the file system allows.
    part = path.parent / f".{secrets.token_hex(8)}{_SUFFIX}"
    # 0o666 and not mkstemp's 0o600: a transcript has the permissions that the user's umask says.
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def sweep_parts(folder: Path) -> int:
    """Remove what a killed run left behind, and say how many. What is fresh may belong to a run that is going on."""
    removed = 0
    now = time.time()
    for part in folder.rglob(f".*{_SUFFIX}"):
        try:
            if now - part.stat().st_mtime > _FORGOTTEN_AFTER_S:
                part.unlink()
                removed += 1
        except OSError:
            pass  # somebody else was faster
    return removed
