"""What goes to a transcription worker, and what comes back: plain values that pickle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpu_dispatch.transcription.engine import PreparedModel, TranscriptionEngine, engine_name
from gpu_dispatch.transcription.formats import DEFAULT_FORMATS
from gpu_dispatch.transcription.settings import TranscriptionSettings


@dataclass(frozen=True, slots=True)
class TranscriptionJob:
    """The same for every file of a run; ``setup()`` gets it."""

    engine: type[TranscriptionEngine]
    model: PreparedModel
    output_dir: str
    settings: TranscriptionSettings = field(default_factory=TranscriptionSettings)
    formats: tuple[str, ...] = DEFAULT_FORMATS
    windows_per_call: int | None = None
    """How many windows, of whatever files, the model gets at once; ``None``: 16 on a GPU, 12 on a CPU."""
    cpu_threads: int = 0
    """Of the model, on a CPU; 0 follows OMP_NUM_THREADS, which holds the worker's share of the cores."""

    @property
    def settings_key(self) -> str:
        return self.settings.key(engine_name(self.engine), self.model.fingerprint)

    def described(self) -> dict[str, Any]:
        """For a person who reads the record."""
        return {"engine": engine_name(self.engine), "model": self.model.name, **self.settings.as_mapping()}


@dataclass(frozen=True, slots=True)
class AudioFile:
    """One task."""

    path: str
    name: str
    """Relative to the input folder: what reports and records call it."""
    stem: str
    """Of its outputs, relative to the output folder."""
    duration_s: float | None = None
    """As probed; only for deciding what goes first and with what."""


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of one file. ``error`` is ``None`` when all went well."""

    file: str
    gpu_id: int | str | None = None
    error: str | None = None
    audio_s: float = 0.0
    speech_s: float = 0.0
    processing_s: float = 0.0
    """Time on the device; in a batch, the file's share of it."""
    language: str | None = None
    segments: int = 0
    outputs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    cancelled: bool = False
    """Not tried, or not finished, because the run was ended."""

    @property
    def ok(self) -> bool:
        return self.error is None
