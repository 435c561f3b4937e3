"""The door to faster-whisper, and to what comes with it."""

from __future__ import annotations

import importlib
import os
from typing import Any

from gpu_dispatch.errors import UsageError

# onnxruntime (the voice detector's) from 1.30 or so on reports its use to its maker and keeps a database for that in
# ~/.cache, beginning with its import; the hub's client adds such remarks to its requests. A transcriber of other
# people's words does neither, unless its user has said so.
_NO_REPORTS = {"ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def import_faster_whisper(module: str = "faster_whisper") -> Any:
    for name, value in _NO_REPORTS.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"transcription needs faster-whisper ({error}): pip install 'gpu-dispatch[transcribe]'"
        ) from error
