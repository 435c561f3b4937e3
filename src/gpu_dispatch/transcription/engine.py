"""What a speech recogniser must offer to be run over a folder: a class with ``load`` and ``transcribe``.

    parent                        worker process
    ------                        --------------
    prepare_model(name)  ──►      load(model, device, settings, cpu_threads)       once
                                  prepare_sound(samples)                           per window, on I/O threads
                                  transcribe(windows) -> [Heard, ...]              the batch, on the device

``prepare_model`` (a class method) and ``prepare_sound`` are optional and looked up by name. Without the first the
model's name goes to ``load`` as it is; without the second a window's ``sound`` is float32 samples, mono, 16 kHz.

The one that is shipped is whisper_engine.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from gpu_dispatch.errors import UsageError
from gpu_dispatch.transcription.settings import TranscriptionSettings
from gpu_dispatch.transcription.transcript import Segment

DEFAULT_ENGINE = "faster-whisper"


@dataclass(frozen=True, slots=True)
class PreparedModel:
    """A model that is on this machine."""

    name: str
    """As the user wrote it."""
    location: str
    """What ``load`` gets: for the engine that is shipped, a folder."""
    fingerprint: str
    """Equal for equal weights, wherever they lie: part of the key by which finished files are known."""


@dataclass(frozen=True, slots=True)
class Window:
    """At most 30 s of one file."""

    sound: Any
    """What ``prepare_sound`` made of the samples."""
    duration_s: float
    source: int
    """Windows with the same number are of the same file, in order."""
    language: str | None
    """As asked for or detected before; ``None`` if it is to be detected."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What was heard in one window; times are seconds from the window's start."""

    segments: tuple[Segment, ...]
    language: str | None = None
    language_probability: float | None = None


class TranscriptionEngine(Protocol):
    def load(self, model: str, device: str, settings: TranscriptionSettings, cpu_threads: int) -> None:
        """Load the model onto ``device`` (``"cuda:0"``, ``"cpu"``). ``cpu_threads``: 0 leaves it to the engine."""

    def transcribe(self, windows: Sequence[Window]) -> Sequence[Heard]:
        """One call of the model; one answer per window, in order."""


class EngineError(Exception):
    """The engine cannot load the model, or not on this device; the message says what to do."""


def find_engine(spec: str | type) -> type[TranscriptionEngine]:
    """``"faster-whisper"``, ``"package.module:Class"`` or the class itself."""
    if isinstance(spec, str):
        where = "gpu_dispatch.transcription.whisper_engine:FasterWhisperEngine" if spec == DEFAULT_ENGINE else spec
        module_name, colon, class_name = where.partition(":")
        if not colon:
            raise UsageError(f"engine {spec!r}: write {DEFAULT_ENGINE!r} or package.module:Class")
        try:
            found = getattr(importlib.import_module(module_name), class_name)
        except (ImportError, AttributeError) as error:
            raise UsageError(f"engine {spec!r}: {error}") from error
    else:
        found = spec
    missing = [name for name in ("load", "transcribe") if not callable(getattr(found, name, None))]
    if missing or not isinstance(found, type):
        lack = f"it has no {' and no '.join(missing)}" if missing else "it is no class"
        raise UsageError(f"engine {spec!r} is not a transcription engine: {lack}")
    return cast("type[TranscriptionEngine]", found)


def prepare_model(engine: type[TranscriptionEngine], name: str) -> PreparedModel:
    """Have the model on this machine, once, before any worker asks for it."""
    prepare = getattr(engine, "prepare_model", None)
    return cast(PreparedModel, prepare(name)) if prepare is not None else PreparedModel(name, name, name)


def engine_name(engine: type) -> str:
    return f"{engine.__module__}.{engine.__qualname__}"
