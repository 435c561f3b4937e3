"""Whisper over files: decoding, voice detection, batches across files, transcript formats.

    gpu_dispatch.transcription.TranscriptionWorker   the BaseWorker
    …TranscriptionSettings, TranscriptionJob          what it is told
    …TranscriptionEngine                              what a recogniser must offer; FasterWhisperEngine is shipped

The way from a folder to transcripts is ``gpu_dispatch.multigpu.LauncherOrchestrator``, and ``gpu-dispatch transcribe``.

Nothing third-party is imported before it is needed; ``pip install 'gpu-dispatch[transcribe]'`` brings what is.
"""

from __future__ import annotations

from gpu_dispatch.transcription.audio import AudioError
from gpu_dispatch.transcription.engine import EngineError, Heard, PreparedModel, TranscriptionEngine, Window
from gpu_dispatch.transcription.formats import FORMATS
from gpu_dispatch.transcription.job import AudioFile, FileResult, TranscriptionJob
from gpu_dispatch.transcription.settings import TranscriptionSettings
from gpu_dispatch.transcription.transcript import Segment, Transcript, Word
from gpu_dispatch.transcription.worker import TranscriptionWorker

__all__ = [
    "FORMATS",
    "AudioError",
    "AudioFile",
    "EngineError",
    "FileResult",
    "Heard",
    "PreparedModel",
    "Segment",
    "Transcript",
    "TranscriptionEngine",
    "TranscriptionJob",
    "TranscriptionSettings",
    "TranscriptionWorker",
    "Window",
    "Word",
]
