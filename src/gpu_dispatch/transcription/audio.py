"""Sound out of files, with PyAV: how long it is, and its samples. No ffmpeg program is needed.

What is an error (``AudioError``, one line, the file's own failure):
- zero bytes, not a media file, no audio stream, nothing decodable;
- damaged: more than a tenth of the packets cannot be decoded;
- truncated: a wav, flac or mp4 that holds less than its header says (a download that broke off).
The last two are only warnings with ``allow_damaged``.

What is not: a valid file without a single sample, or with nothing but silence. Nothing is said in it, and that is
what its transcript says. An mp3 that is shorter than its header says: cutting an mp3 leaves the header as it was.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_dispatch.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

SAMPLE_RATE = 16_000  # what Whisper and the voice detector expect

AUDIO_SUFFIXES = frozenset(
    f".{suffix}"
    for suffix in (
        *("wav", "mp3", "flac", "m4a", "ogg", "opus", "oga", "aac", "wma", "aiff", "aif", "amr", "mka"),
        *("mp4", "mkv", "mov", "webm", "avi", "m4v", "3gp"),
    )
)
_DAMAGED_SHARE = 0.1  # below it a listener hears a click; above it the text is made up
_EXACT_CONTAINERS = frozenset({"flac", "mov", "mp4"})  # their headers know how much there should be
_TRUNCATED_BELOW = 0.98  # of the promised length; encoders pad by some hundredths of a second
_UNKNOWN_LENGTHS = frozenset({0, 0xFFFFFFFF, 0x7FFFFFFF})  # what programs that write to a pipe put into a wav


class AudioError(Exception):
    """This file cannot be transcribed; the message says why."""


@dataclass(frozen=True, slots=True)
class Decoded:
    samples: np.ndarray[Any, Any]
    """int16, mono, 16 kHz: half the memory of floats, and an hour is still 115 MB."""
    warnings: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        return len(self.samples) / SAMPLE_RATE


def probe_duration(path: Path) -> float | None:
    """Seconds, from the headers alone; ``None`` when they do not tell or the file is no audio. Never raises for that.

    Used only to decide what goes first, so an estimate will do.
    """
    av = import_av()
    try:
        with path.open("rb") as file:
            if (seconds := _wav_seconds(file)) is not None:
                return seconds
        with av.open(str(path), **_open_options(av)) as container:
            stream = container.streams.audio[0]
            if stream.duration is not None and stream.time_base is not None:
                return float(stream.duration * stream.time_base)
            return container.duration / 1e6 if container.duration else None
    except (OSError, ValueError, IndexError, av.error.FFmpegError):
        return None


def decode(path: Path, *, allow_damaged: bool = False) -> Decoded:
    """All of the file's first audio stream."""
    av = import_av()
    try:
        if os.stat(path).st_size == 0:
            raise AudioError("the file is empty (0 bytes)")
        promised_s, container_names, packets, damaged, samples = _decode_stream(av, path)
    except av.error.FFmpegError as error:
        raise AudioError(f"not readable as audio: {error.strerror or error}") from error
    except OSError as error:
        raise AudioError(f"cannot be read: {error.strerror or error}") from error
    found_s = len(samples) / SAMPLE_RATE
    if damaged and not len(samples):
        raise AudioError(f"nothing in it can be decoded ({damaged} damaged packets)")
    faults = []
    if damaged > _DAMAGED_SHARE * packets:
        faults.append(f"damaged: {damaged} of {packets} packets cannot be decoded")
    if promised_s is None or not container_names & _EXACT_CONTAINERS:
        promised_s = _promised_by_wav(path)
    if promised_s is not None and found_s < _TRUNCATED_BELOW * promised_s - 0.1:
        faults.append(f"truncated: its header says {promised_s:.1f} s, {found_s:.1f} s are there")
    if faults and not allow_damaged:
        raise AudioError(f"{faults[0]} (allow damaged files to transcribe what is there)")
    if damaged and not faults:
        faults.append(f"{damaged} of {packets} packets could not be decoded")
    return Decoded(samples, tuple(faults))


def _decode_stream(av: Any, path: Path) -> tuple[float | None, frozenset[str], int, int, np.ndarray[Any, Any]]:
    import numpy as np

    blocks: list[np.ndarray[Any, Any]] = []
    packets = damaged = 0
    with av.open(str(path), **_open_options(av)) as container:
        if not container.streams.audio:
            raise AudioError("there is no sound in it (no audio stream)")
        stream = container.streams.audio[0]
        if not stream.codec_context.sample_rate:  # a demuxer that was chosen by the suffix and found nothing
            raise AudioError("not readable as audio: its header is missing or damaged")
        promised_s = float(stream.duration * stream.time_base) if stream.duration else None
        names = frozenset(container.format.name.split(","))
        resampler: Any = None
        shape = None
        for packet in container.demux(stream):
            packets += 1
            try:
                frames = packet.decode()
            except av.error.InvalidDataError:
                damaged += 1
                continue
            for frame in frames:
                # Streams cut together from several sources change their channels or rate on the way.
                if shape != (shape := (frame.format.name, frame.layout.name, frame.sample_rate)):
                    blocks.extend(_flushed(resampler))
                    resampler = av.AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
                frame.pts = None  # gaps and jumps in the clock of a damaged file are not ours to mend
                blocks.extend(out.to_ndarray()[0] for out in resampler.resample(frame))
        blocks.extend(_flushed(resampler))
    samples = np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.int16)
    return promised_s, names, packets, damaged, samples


def _flushed(resampler: Any) -> list[np.ndarray[Any, Any]]:
    return [out.to_ndarray()[0] for out in resampler.resample(None)] if resampler is not None else []


def import_av() -> Any:
    try:
        import av
    except ImportError as error:
        raise UsageError("reading audio needs PyAV: pip install 'gpu-dispatch[transcribe]'") from error
    av.logging.set_level(None)  # ffmpeg's remarks about a damaged file; what matters is in our own message
    return av


def _open_options(av: Any) -> dict[str, str]:
    # Titles in broken encodings are common in mp3; from PyAV 19 on they do no harm and the option is gone.
    return {"metadata_errors": "ignore"} if int(av.__version__.split(".")[0]) < 19 else {}


# --- wav ------------------------------------------------------------------------------------------------------
# ffmpeg takes a wav's length from the size of the file, so it cannot tell a truncated one; and it takes 5 ms to open
# one, against 0.05 ms for reading the header here, which counts when a hundred thousand clips are to be sorted.


def _wav_header(file: Any) -> tuple[int, int, int] | None:
    """Bytes per second, where the samples begin, and how many bytes of them the header promises."""
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


def _wav_seconds(file: Any) -> float | None:
    header = _wav_header(file)
    if header is None:
        return None
    rate, begins, promised = header
    there = os.fstat(file.fileno()).st_size - begins
    return max(0, there if promised in _UNKNOWN_LENGTHS else min(there, promised)) / rate


def _promised_by_wav(path: Path) -> float | None:
    with path.open("rb") as file:
        header = _wav_header(file)
    return None if header is None or header[2] in _UNKNOWN_LENGTHS else header[2] / header[0]
