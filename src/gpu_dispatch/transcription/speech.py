"""Where somebody speaks: Silero's voice detector, which comes inside faster-whisper and runs on one CPU core.

It is run on the I/O threads, block by block: an hour at once would need a gigabyte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_dispatch.transcription.audio import SAMPLE_RATE
from gpu_dispatch.transcription.third_party import import_faster_whisper
from gpu_dispatch.transcription.windows import WINDOW_S, Span, joined

if TYPE_CHECKING:
    import numpy as np

_BLOCK = 600 * SAMPLE_RATE
_SHORTEST_MS = 100  # a click is shorter; a curt "no" is longer
_PAUSE_MS = 160  # many places to cut a long talk; plan_windows joins what belongs together
_PAD_MS = 400  # a window that begins with the first phoneme loses it


def find_speech(samples: np.ndarray[Any, Any]) -> list[Span]:
    """The spans of voice in int16 samples, in order."""
    return joined(
        (_find_in_block(samples[start : start + _BLOCK], start) for start in range(0, len(samples), _BLOCK)),
        nearer_than=_PAUSE_MS * SAMPLE_RATE // 1000,
    )


def load_voice_detector() -> None:
    import_faster_whisper("faster_whisper.vad").get_vad_model()


def as_floats(samples: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    floats: np.ndarray[Any, Any] = samples.astype(np.float32) / np.float32(32768.0)
    return floats


def _find_in_block(samples: np.ndarray[Any, Any], offset: int) -> list[Span]:
    vad = import_faster_whisper("faster_whisper.vad")
    options = vad.VadOptions(
        min_speech_duration_ms=_SHORTEST_MS,
        min_silence_duration_ms=_PAUSE_MS,
        speech_pad_ms=_PAD_MS,
        max_speech_duration_s=WINDOW_S,
    )
    found = vad.get_speech_timestamps(as_floats(samples), options)
    return [Span(offset + int(each["start"]), offset + int(each["end"])) for each in found]
