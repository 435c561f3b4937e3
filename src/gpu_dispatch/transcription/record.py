"""The JSON of a transcript: what was heard, in what, and how; and the question whether it still holds.

A file is done when its record names the same content and the same settings. Content is compared the way rsync does
it: equal size and modification time are believed; when they differ (a copy, a touch), the SHA-256 decides.
``checksum=True`` always reads the file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_dispatch.transcription.transcript import Transcript, from_mapping, to_mapping

_FORMAT = "gpu_dispatch.transcript"
_VERSION = 1
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    """The source, relative to the input folder, with forward slashes."""
    size: int
    mtime_ns: int
    sha256: str
    settings_key: str
    settings: Mapping[str, Any]
    """For the reader: what the key was made of."""
    transcript: Transcript
    warnings: tuple[str, ...] = ()

    def to_json(self) -> str:
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "source": {"path": self.name, "size": self.size, "mtime_ns": self.mtime_ns, "sha256": self.sha256},
            "settings_key": self.settings_key,
            "settings": dict(self.settings),
            "warnings": list(self.warnings),
            **to_mapping(self.transcript),
        }
        return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def read_record(path: Path) -> Record | None:
    """The record at ``path``; ``None`` when there is none, or something else, or half of one."""
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != _FORMAT or content["version"] != _VERSION:
            return None
        source = content["source"]
        return Record(
            name=source["path"],
            size=int(source["size"]),
            mtime_ns=int(source["mtime_ns"]),
            sha256=source["sha256"],
            settings_key=content["settings_key"],
            settings=content["settings"],
            transcript=from_mapping(content),
            warnings=tuple(content["warnings"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def holds(record: Record, source: Path, settings_key: str, *, checksum: bool = False) -> bool:
    """Whether ``record`` is what transcribing ``source`` would give again."""
    if record.settings_key != settings_key:
        return False
    try:
        status = source.stat()
        if status.st_size != record.size:
            return False
        if status.st_mtime_ns == record.mtime_ns and not checksum:
            return True
        return content_hash(source) == record.sha256
    except OSError:
        return False  # the worker will meet the same trouble, and report it


def content_hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def printable(path: str | os.PathLike[str]) -> str:
    """A path as text that UTF-8 can hold, whatever bytes the file system has for a name."""
    return os.fsencode(path).decode("utf-8", "backslashreplace").replace(os.sep, "/")
