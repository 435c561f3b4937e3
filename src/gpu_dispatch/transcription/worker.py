"""The BaseWorker that transcribes.

    AudioFile ──preprocess──► Prepared ──process_batch──► Transcribed ──postprocess──► FileResult
               decode, voice,           windows of many files,         write the formats,
               features                 one call of the model          then the record
               (I/O threads)            (the device)                   (I/O threads)

``process(AudioFile)`` does all three for one file, where the dispatcher does not batch. A long file is not decoded in
advance but while it is transcribed, by a thread that runs ahead: the model can begin at once, and a folder of long
recordings does not fill the memory.

Guarantees
- The record (json) is written last: when it is there, the other formats are.
- A file that cannot be decoded fails alone, with an AudioError that says why.
- When the device runs out of memory the batch is halved, and stays so.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpu_dispatch.transcription.ahead import run_ahead
from gpu_dispatch.transcription.audio import SAMPLE_RATE, AudioError, AudioStream
from gpu_dispatch.transcription.engine import Heard, TranscriptionEngine, Window
from gpu_dispatch.transcription.formats import RENDERERS
from gpu_dispatch.transcription.job import AudioFile, FileResult, TranscriptionJob
from gpu_dispatch.transcription.outputs import write_atomically
from gpu_dispatch.transcription.record import Record, content_hash
from gpu_dispatch.transcription.speech import as_floats, find_speech, load_voice_detector
from gpu_dispatch.transcription.transcript import Segment, Transcript, tidied
from gpu_dispatch.transcription.windows import WINDOW_S, Span, cut_evenly, cut_stream, plan_windows
from gpu_dispatch.worker import BaseWorker

Piece = tuple[Span, Any]  # where it is in the file, and its sound as the engine wants it

_ALONE = 1_000_000  # windows: more than any batch takes
_LONG_S = 600.0  # twenty windows and more: it fills a batch; below it, 20 MB at most are held for each file ahead
_WINDOWS_ON_GPU = 16
_WINDOWS_ON_CPU = 12  # more gains little, and costs memory: 70 MB a window with the smallest model


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file, ready for the device."""

    file: AudioFile
    size: int
    mtime_ns: int
    sha256: str
    stream: AudioStream
    windows: tuple[Piece, ...] | None
    """``None`` for a long file: it is decoded while it is transcribed."""


@dataclass(frozen=True, slots=True)
class Transcribed:
    prepared: Prepared
    transcript: Transcript
    processing_s: float


@dataclass(slots=True)
class _Hearing:
    """One file while the model hears it."""

    number: int
    """In its batch."""
    prepared: Prepared
    language: str | None
    probability: float | None = None
    segments: list[Segment] = field(default_factory=list)
    speech_s: float = 0.0
    processing_s: float = 0.0

    def add(self, span: Span, heard: Heard, processing_s: float) -> None:
        begins_s = span.start / SAMPLE_RATE
        self.segments += [segment.later(begins_s) for segment in heard.segments]
        self.speech_s += len(span) / SAMPLE_RATE
        self.processing_s += processing_s
        if self.language is None:
            self.language, self.probability = heard.language, heard.language_probability

    def transcribed(self) -> Transcribed:
        duration_s = self.prepared.stream.duration_s
        transcript = Transcript(
            segments=tidied(self.segments, duration_s),
            duration_s=round(duration_s, 3),
            speech_s=round(self.speech_s, 3),
            language=self.language,
            language_probability=self.probability,
        )
        # The sound is no longer needed, and would wait for the disk with it.
        return Transcribed(replace(self.prepared, windows=None), transcript, self.processing_s)


class TranscriptionWorker(BaseWorker):
    def setup(self, gpu_id: int, seed: int, *, job: TranscriptionJob) -> None:
        self._gpu_id = gpu_id
        self._job = job
        self._key = job.settings_key
        self._windows_per_call = job.windows_per_call or windows_per_call([self.device])
        self._engine: TranscriptionEngine = job.engine()
        self._engine.load(job.model.location, self.device, job.settings, job.cpu_threads)
        if job.settings.vad:
            load_voice_detector()  # now, and not while the first batch waits for it

    # --- one file, start to end -----------------------------------------------------------------------------

    def process(self, data: AudioFile | Prepared) -> FileResult | Transcribed:
        if isinstance(data, Prepared):  # the dispatcher runs preprocess and postprocess on I/O threads
            return self.process_batch([data])[0]
        return self.postprocess(self.process_batch([self.preprocess(data)])[0])

    # --- the three steps ------------------------------------------------------------------------------------

    def preprocess(self, item: AudioFile) -> Prepared:
        path = Path(item.path)
        try:
            status = os.stat(path)  # before reading: a file that changes meanwhile will not look done
            digest = content_hash(path)
        except OSError as error:
            raise AudioError(f"cannot be read: {error.strerror or error}") from error
        stream = AudioStream(path, allow_damaged=self._job.settings.allow_damaged)
        windows = None if is_long(item) else tuple(self._windows(stream))
        return Prepared(item, status.st_size, status.st_mtime_ns, digest, stream, windows)

    def process_batch(self, batch: Sequence[Prepared]) -> list[Transcribed]:
        hearings = [_Hearing(number, prepared, self._job.settings.language) for number, prepared in enumerate(batch)]
        pieces = ((hearing, piece) for hearing in hearings for piece in self._pieces(hearing.prepared))
        with closing(pieces):
            while group := list(itertools.islice(pieces, self._windows_per_call)):
                self._hear(group)
        return [hearing.transcribed() for hearing in hearings]

    def postprocess(self, result: Transcribed) -> FileResult:
        prepared, transcript = result.prepared, result.transcript
        record = Record(
            name=prepared.file.name,
            size=prepared.size,
            mtime_ns=prepared.mtime_ns,
            sha256=prepared.sha256,
            settings_key=self._key,
            settings=self._job.described(),
            transcript=transcript,
            warnings=prepared.stream.warnings,
        )
        return FileResult(
            file=prepared.file.name,
            gpu_id=self._gpu_id,
            audio_s=transcript.duration_s,
            speech_s=transcript.speech_s,
            processing_s=result.processing_s,
            language=transcript.language,
            segments=len(transcript.segments),
            outputs=write_outputs(record, Path(self._job.output_dir), prepared.file.stem, self._job.formats),
            warnings=prepared.stream.warnings,
        )

    # --- parts of the steps ---------------------------------------------------------------------------------

    def _hear(self, group: list[tuple[_Hearing, Piece]]) -> None:
        """One call of the model; two, if the device has not memory enough for all of it."""
        windows = [
            Window(sound, len(span) / SAMPLE_RATE, hearing.number, hearing.language) for hearing, (span, sound) in group
        ]
        began = time.perf_counter()
        answers: Sequence[Heard] | None = None
        try:
            answers = self._engine.transcribe(windows)
        except Exception as error:
            if not _out_of_memory(error) or len(group) == 1:
                raise
        if answers is None:  # not in the except block, where the traceback keeps the memory of the failed call
            self._windows_per_call = half = len(group) // 2
            self._hear(group[:half])
            self._hear(group[half:])
            return
        if len(answers) != len(group):
            raise RuntimeError(f"the engine gave {len(answers)} answers for {len(group)} windows")
        share = (time.perf_counter() - began) / len(group)
        for (hearing, (span, _)), heard in zip(group, answers, strict=True):
            hearing.add(span, heard, share)

    def _pieces(self, prepared: Prepared) -> Iterator[Piece]:
        if prepared.windows is not None:
            return iter(prepared.windows)
        return run_ahead(self._windows(prepared.stream), depth=2 * self._windows_per_call)

    def _windows(self, stream: AudioStream) -> Iterator[Piece]:
        prepare = getattr(self._engine, "prepare_sound", as_floats)
        for span, samples in cut_stream(stream, self._find_windows, margin=SAMPLE_RATE):
            yield span, prepare(samples)

    def _find_windows(self, samples: Any) -> list[Span]:
        if self._job.settings.vad:
            return plan_windows(find_speech(samples), SAMPLE_RATE)
        return cut_evenly(Span(0, len(samples)), int(WINDOW_S * SAMPLE_RATE))


def is_long(file: AudioFile) -> bool:
    """Whether it fills the model for a while by itself."""
    return file.duration_s is not None and file.duration_s > _LONG_S


def windows_per_call(devices: Iterable[str]) -> int:
    """What a model on such devices is given at once."""
    return _WINDOWS_ON_CPU if all(device == "cpu" for device in devices) else _WINDOWS_ON_GPU


def windows_in(item: Prepared | AudioFile) -> int:
    """How much of a batch a file takes up. Module level, because it travels to the workers by name."""
    if not isinstance(item, Prepared):
        return 1
    return len(item.windows) if item.windows is not None else _ALONE


def write_outputs(
    record: Record, output_dir: Path, stem: str, formats: Sequence[str], *, only_missing: bool = False
) -> tuple[str, ...]:
    """Write the formats of a record, the record itself last. Returns their paths, relative to ``output_dir``."""
    for name in formats:
        path = output_dir / f"{stem}.{name}"
        if name != "json" and not (only_missing and path.exists()):
            write_atomically(path, RENDERERS[name](record.transcript))
    if not only_missing:
        write_atomically(output_dir / f"{stem}.json", record.to_json())
    return tuple(f"{stem}.{name}" for name in formats)


def _out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "out of memory" in str(error).lower()
