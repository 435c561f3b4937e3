"""What the header of a wav file says.

It is read here and not by ffmpeg, which takes a wav's length from the size of the file, so that it cannot tell a
truncated one; and which takes 5 ms to open it, when a hundred thousand clips are to be sorted by their length.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_UNKNOWN_LENGTHS = frozenset({0, 0xFFFFFFFF, 0x7FFFFFFF})  # what programs that write to a pipe put there


@dataclass(frozen=True, slots=True)
class WavLength:
    there_s: float
    """By the size of the file."""
    promised_s: float | None
    """By the header, if it knows."""


def wav_length(path: Path) -> WavLength | None:
    """``None`` when it is not a wav file, or not one that can be understood."""
    with path.open("rb") as file:
        header = _read(file)
        if header is None:
            return None
        bytes_per_second, begins, promised = header
        there_s = max(0, os.fstat(file.fileno()).st_size - begins) / bytes_per_second
    if promised in _UNKNOWN_LENGTHS:
        return WavLength(there_s, None)
    return WavLength(min(there_s, promised / bytes_per_second), promised / bytes_per_second)


def _read(file: BinaryIO) -> tuple[int, int, int] | None:
    """Bytes per second, where the samples begin, and how many bytes of them there should be."""
    if (head := file.read(12))[:4] != b"RIFF" or head[8:] != b"WAVE":
        return None
    rate = 0
    for _ in range(64):  # a real file has a handful of chunks before its samples
        chunk = file.read(8)
        if len(chunk) < 8:
            return None
        kind, size = chunk[:4], struct.unpack("<I", chunk[4:])[0]
        if kind == b"data":
            return (rate, file.tell(), size) if rate else None
        if kind == b"fmt ":
            body = file.read(size)
            if len(body) < 16:
                return None
            rate = struct.unpack("<I", body[8:12])[0]
            file.seek(size & 1, os.SEEK_CUR)
        else:
            file.seek(size + (size & 1), os.SEEK_CUR)
    return None
