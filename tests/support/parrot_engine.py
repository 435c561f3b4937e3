"""A transcription engine without a model, for tests of everything around it. Its model's name says how it behaves.

"parrot"      says how many samples it heard
"slow"        takes a second per call
"broken"      cannot be loaded
"deadly"      kills its process when it hears exactly three seconds
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from gpu_dispatch.transcription import EngineError, Heard, Segment, TranscriptionSettings, Window


class ParrotEngine:
    def load(self, model: str, device: str, settings: TranscriptionSettings, cpu_threads: int) -> None:
        if model == "broken":
            raise EngineError("this model cannot be loaded: it is broken")
        self._model = model

    def transcribe(self, windows: Sequence[Window]) -> list[Heard]:
        if self._model == "slow":
            time.sleep(1.0)
        if self._model == "endless":
            Path("listening").touch()
            time.sleep(60.0)
        if self._model == "deadly" and any(window.duration_s == 3.0 for window in windows):
            os.kill(os.getpid(), signal.SIGKILL)
        return [Heard((Segment(0.0, w.duration_s, f" {len(w.sound)} samples"),), "en", 0.9) for w in windows]
