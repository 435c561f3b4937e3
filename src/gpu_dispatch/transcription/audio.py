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
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_dispatch.errors import UsageError
from gpu_dispatch.transcription.wav_header import wav_length

if TYPE_CHECKING:
    import numpy as np

SAMPLE_RATE = 16_000  # what Whisper and the voice detector expect
BLOCK_S = 120.0  # the voice detector needs 0.1 GB for that, and 0.4 GB for ten minutes, on each I/O thread

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


class AudioError(Exception):
    """This file cannot be transcribed; the message says why."""


def probe_duration(path: Path) -> float | None:
    """Seconds, from the headers alone; ``None`` when they do not tell or the file is no audio. Never raises for that.

    Used only to decide what goes first, so an estimate will do.
    """
    av = import_av()
    try:
        if (wav := wav_length(path)) is not None:
            return wav.there_s
        with av.open(str(path), **_open_options(av)) as container:
            stream = container.streams.audio[0]
            if stream.duration is not None and stream.time_base is not None:
                return float(stream.duration * stream.time_base)
            return container.duration / 1e6 if container.duration else None
    except (OSError, ValueError, IndexError, av.error.FFmpegError):
        return None


class AudioStream:
    """The first audio stream of a file, decoded block by block: an hour at once would take a gigabyte on its way.

    Iterate over int16 samples, mono, 16 kHz. What is wrong with the whole (damaged, truncated) is known only at its
    end, and raised there. Afterwards ``duration_s`` and ``warnings`` are true.
    """

    def __init__(self, path: Path, *, allow_damaged: bool = False, block_s: float = BLOCK_S) -> None:
        self._path = path
        self._allow_damaged = allow_damaged
        self._block = int(block_s * SAMPLE_RATE)
        self._packets = self._damaged = self._samples = 0
        self._promised_s: float | None = None
        self.warnings: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        return self._samples / SAMPLE_RATE

    def __iter__(self) -> Iterator[np.ndarray[Any, Any]]:
        import numpy as np

        av = import_av()
        self._packets = self._damaged = self._samples = 0
        pieces: list[np.ndarray[Any, Any]] = []
        waiting = 0
        try:
            if os.stat(self._path).st_size == 0:
                raise AudioError("the file is empty (0 bytes)")
            for piece in self._pieces(av):
                pieces.append(piece)
                waiting += len(piece)
                if waiting >= self._block:
                    yield np.concatenate(pieces)
                    pieces, waiting = [], 0
        except av.error.FFmpegError as error:
            raise AudioError(f"not readable as audio: {error.strerror or error}") from error
        except OSError as error:
            raise AudioError(f"cannot be read: {error.strerror or error}") from error
        if pieces:
            yield np.concatenate(pieces)
        self._judge()

    def _pieces(self, av: Any) -> Iterator[np.ndarray[Any, Any]]:
        with av.open(str(self._path), **_open_options(av)) as container:
            stream = self._checked_stream(container)
            resampler: Any = None
            shape = None
            for packet in container.demux(stream):
                self._packets += 1
                try:
                    frames = packet.decode()
                except av.error.InvalidDataError:
                    self._damaged += 1
                    continue
                for frame in frames:
                    # Streams cut together from several sources change their channels or rate on the way.
                    if shape != (shape := (frame.format.name, frame.layout.name, frame.sample_rate)):
                        yield from self._resampled(resampler, None)
                        resampler = av.AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
                    frame.pts = None  # gaps and jumps in the clock of a damaged file are not ours to mend
                    yield from self._resampled(resampler, frame)
            yield from self._resampled(resampler, None)

    def _checked_stream(self, container: Any) -> Any:
        if not container.streams.audio:
            raise AudioError("there is no sound in it (no audio stream)")
        stream = container.streams.audio[0]
        if not stream.codec_context.sample_rate:  # a demuxer that was chosen by the suffix and found nothing
            raise AudioError("not readable as audio: its header is missing or damaged")
        if stream.duration and _EXACT_CONTAINERS & set(container.format.name.split(",")):
            self._promised_s = float(stream.duration * stream.time_base)
        elif (wav := wav_length(self._path)) is not None:
            self._promised_s = wav.promised_s
        return stream

    def _resampled(self, resampler: Any, frame: Any) -> Iterator[np.ndarray[Any, Any]]:
        for out in resampler.resample(frame) if resampler is not None else ():
            samples = out.to_ndarray()[0]
            self._samples += len(samples)
            yield samples

    def _judge(self) -> None:
        damaged, packets = self._damaged, self._packets
        if damaged and not self._samples:
            raise AudioError(f"nothing in it can be decoded ({damaged} damaged packets)")
        faults = []
        if damaged > _DAMAGED_SHARE * packets:
            faults.append(f"damaged: {damaged} of {packets} packets cannot be decoded")
        if self._promised_s is not None and self.duration_s < _TRUNCATED_BELOW * self._promised_s - 0.1:
            faults.append(f"truncated: its header says {self._promised_s:.1f} s, {self.duration_s:.1f} s are there")
        if faults and not self._allow_damaged:
            raise AudioError(f"{faults[0]} (allow damaged files to transcribe what is there)")
        if damaged and not faults:
            faults.append(f"{damaged} of {packets} packets could not be decoded")
        self.warnings = tuple(faults)


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
