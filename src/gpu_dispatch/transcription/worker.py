"""The BaseWorker that transcribes.

    AudioFile ──preprocess──► Prepared ──process_batch──► Transcribed ──postprocess──► FileResult
               decode, voice,           windows of many files,         write the formats,
               features                 one call of the model          then the record
               (I/O threads)            (the device)                   (I/O threads)

``process(AudioFile)`` does all three for one file, where the dispatcher does not batch.

Guarantees
- The record (json) is written last: when it is there, the other formats are.
- A file that cannot be decoded fails alone, with an AudioError that says why.
- When the device runs out of memory the batch is halved, and stays so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpu_dispatch.transcription.audio import SAMPLE_RATE, Decoded, decode
from gpu_dispatch.transcription.engine import Heard, TranscriptionEngine, Window
from gpu_dispatch.transcription.formats import RENDERERS
from gpu_dispatch.transcription.job import AudioFile, FileResult, TranscriptionJob
from gpu_dispatch.transcription.outputs import write_atomically
from gpu_dispatch.transcription.record import Record, content_hash
from gpu_dispatch.transcription.speech import as_floats, find_speech, load_voice_detector
from gpu_dispatch.transcription.transcript import Transcript, tidied
from gpu_dispatch.transcription.windows import WINDOW_S, Span, cut_evenly, in_batches, plan_windows
from gpu_dispatch.worker import BaseWorker

_WINDOWS_ON_GPU = 16
_WINDOWS_ON_CPU = 12  # more gains little, and costs memory: 70 MB a window with the smallest model


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file, decoded: what the device needs of it."""

    file: AudioFile
    size: int
    mtime_ns: int
    sha256: str
    duration_s: float
    spans: tuple[Span, ...]
    sounds: tuple[Any, ...]
    """One per span, as the engine's ``prepare_sound`` made it."""
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Transcribed:
    prepared: Prepared
    transcript: Transcript
    processing_s: float


class TranscriptionWorker(BaseWorker):
    def setup(self, gpu_id: int, seed: int, *, job: TranscriptionJob) -> None:
        self._gpu_id = gpu_id
        self._job = job
        self._key = job.settings_key
        self._windows_per_call = job.windows_per_call or windows_per_call([self.device])
        self.model_calls = 0
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
        status = os.stat(path)  # before reading: a file that changes meanwhile will not look done
        digest = content_hash(path)
        decoded = decode(path, allow_damaged=self._job.settings.allow_damaged)
        spans = self._windows_of(decoded)
        prepare = getattr(self._engine, "prepare_sound", as_floats)
        return Prepared(
            file=item,
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            sha256=digest,
            duration_s=decoded.duration_s,
            spans=tuple(spans),
            sounds=tuple(prepare(decoded.samples[span.start : span.end]) for span in spans),
            warnings=decoded.warnings,
        )

    def process_batch(self, batch: Sequence[Prepared]) -> list[Transcribed]:
        places = [(number, span) for number, prepared in enumerate(batch) for span in range(len(prepared.spans))]
        heard: dict[tuple[int, int], Heard] = {}
        seconds = [0.0] * len(batch)
        languages: dict[int, str | None] = {}
        while places:
            group = next(iter(in_batches(places, self._windows_per_call)))
            windows = [self._window(batch[n], n, s, languages.get(n)) for n, s in group]
            began = time.perf_counter()
            try:
                answers = self._engine.transcribe(windows)
            except Exception as error:
                if not _out_of_memory(error) or len(group) == 1:
                    raise
                self._windows_per_call = len(group) // 2
                continue
            finally:
                self.model_calls += 1
            share = (time.perf_counter() - began) / len(group)
            if len(answers) != len(group):
                raise RuntimeError(f"the engine gave {len(answers)} answers for {len(group)} windows")
            for (number, span), answer in zip(group, answers, strict=True):
                heard[number, span] = answer
                seconds[number] += share
                languages.setdefault(number, answer.language)
            places = places[len(group) :]
        return [
            self._put_together(prepared, [heard[n, s] for s in range(len(prepared.spans))], seconds[n])
            for n, prepared in enumerate(batch)
        ]

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
            warnings=prepared.warnings,
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
            warnings=prepared.warnings,
        )

    # --- parts of the steps ---------------------------------------------------------------------------------

    def _windows_of(self, decoded: Decoded) -> list[Span]:
        if self._job.settings.vad:
            return plan_windows(find_speech(decoded.samples), SAMPLE_RATE)
        return cut_evenly(Span(0, len(decoded.samples)), int(WINDOW_S * SAMPLE_RATE))

    def _window(self, prepared: Prepared, number: int, span: int, detected: str | None) -> Window:
        language = self._job.settings.language or detected
        return Window(prepared.sounds[span], len(prepared.spans[span]) / SAMPLE_RATE, number, language)

    def _put_together(self, prepared: Prepared, heard: Sequence[Heard], processing_s: float) -> Transcribed:
        segments = [
            segment.later(span.start / SAMPLE_RATE)
            for span, answer in zip(prepared.spans, heard, strict=True)
            for segment in answer.segments
        ]
        transcript = Transcript(
            segments=tidied(segments, prepared.duration_s),
            duration_s=round(prepared.duration_s, 3),
            speech_s=round(sum(map(len, prepared.spans)) / SAMPLE_RATE, 3),
            language=heard[0].language if heard else self._job.settings.language,
            language_probability=heard[0].language_probability if heard else None,
        )
        return Transcribed(replace(prepared, sounds=()), transcript, processing_s)  # the sound is no longer needed


def windows_per_call(devices: Iterable[str]) -> int:
    """What a model on such devices is given at once."""
    return _WINDOWS_ON_CPU if all(device == "cpu" for device in devices) else _WINDOWS_ON_GPU


def windows_in(item: Prepared | AudioFile) -> int:
    """How much of a batch a file takes up. Module level, because it travels to the workers by name."""
    return len(item.spans) if isinstance(item, Prepared) else 1


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
