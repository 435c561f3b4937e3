"""What the user may set about a transcription, validated once.

Everything here changes the text, so all of it goes into the key by which a later run knows a finished file again.
What does not change the text (formats, batch size, threads, devices) is not here.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from gpu_dispatch.errors import UsageError

TASKS = ("transcribe", "translate")
COMPUTE_TYPES = ("auto", "float16", "int8_float16", "bfloat16", "int8_bfloat16", "float32", "int8_float32", "int8")


@dataclass(frozen=True, slots=True)
class TranscriptionSettings:
    language: str | None = None
    """A code such as ``"en"``; ``None`` detects it, once per file."""
    task: str = "transcribe"
    """``"translate"`` writes English, whatever is spoken."""
    beam_size: int = 5
    word_timestamps: bool = False
    vad: bool = True
    """Leave out what the voice detector takes for silence or noise."""
    initial_prompt: str | None = None
    """Names and spellings to expect; given to the model before every window."""
    compute_type: str = "auto"
    """``"auto"`` is float16 on a GPU and int8 on a CPU. The key holds the word ``auto``: an interrupted run that goes
    on with other hardware does not begin again."""
    allow_damaged: bool = False
    """Transcribe what can be decoded of a damaged or truncated file, instead of failing it."""

    def __post_init__(self) -> None:
        if self.language is not None and not (self.language.isalpha() and 2 <= len(self.language) <= 3):
            raise UsageError(f"language must be a code such as 'en' or 'de', got {self.language!r}")
        if self.task not in TASKS:
            raise UsageError(f"task must be one of {', '.join(TASKS)}, got {self.task!r}")
        if isinstance(self.beam_size, bool) or not isinstance(self.beam_size, int) or not 1 <= self.beam_size <= 100:
            raise UsageError(f"beam_size must be a whole number from 1 to 100, got {self.beam_size!r}")
        if self.compute_type not in COMPUTE_TYPES:
            raise UsageError(f"compute_type must be one of {', '.join(COMPUTE_TYPES)}, got {self.compute_type!r}")

    def as_mapping(self) -> dict[str, Any]:
        return asdict(self)

    def key(self, engine: str, model_fingerprint: str) -> str:
        """Equal for two runs that would write the same text for the same audio."""
        essence = {"engine": engine, "model": model_fingerprint, **self.as_mapping()}
        return hashlib.sha256(json.dumps(essence, sort_keys=True).encode()).hexdigest()[:32]
