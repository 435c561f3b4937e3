"""Where somebody speaks: Silero's voice detector, which comes inside faster-whisper and runs on one CPU core.

It costs about 2 ms per second of sound, and is run on the I/O threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_dispatch.transcription.third_party import import_faster_whisper
from gpu_dispatch.transcription.windows import WINDOW_S, Span

if TYPE_CHECKING:
    import numpy as np

_SHORTEST_MS = 100  # a click is shorter; a curt "no" is longer
_PAUSE_MS = 160  # many places to cut a long talk; plan_windows joins what belongs together
_PAD_MS = 400  # a window that begins with the first phoneme loses it


def find_speech(samples: np.ndarray[Any, Any]) -> list[Span]:
    """The spans of voice in int16 samples, in order."""
    vad = import_faster_whisper("faster_whisper.vad")
    options = vad.VadOptions(
        min_speech_duration_ms=_SHORTEST_MS,
        min_silence_duration_ms=_PAUSE_MS,
        speech_pad_ms=_PAD_MS,
        max_speech_duration_s=WINDOW_S,
    )
    return [
        Span(int(each["start"]), int(each["end"])) for each in vad.get_speech_timestamps(as_floats(samples), options)
    ]


def load_voice_detector() -> None:
    import_faster_whisper("faster_whisper.vad").get_vad_model()


def as_floats(samples: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    floats: np.ndarray[Any, Any] = samples.astype(np.float32) / np.float32(32768.0)
    return floats
