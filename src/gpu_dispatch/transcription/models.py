"""From the name of a Whisper model to a folder on this machine.

    "tiny.en", "base", "large-v3"      a size: from the Hugging Face hub, or its cache
    "Systran/faster-whisper-base"      a name on the hub
    "models/mine"                      a folder with a model in CTranslate2's format

This is done in the parent, once: eight workers must not fetch the same three gigabytes, and a wrong name is
found before any of them starts.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

from gpu_dispatch.errors import UsageError
from gpu_dispatch.transcription.engine import PreparedModel
from gpu_dispatch.transcription.third_party import import_faster_whisper

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_SAMPLED = 1 << 16


def prepare_whisper_model(name: str) -> PreparedModel:
    folder = Path(name).expanduser()
    if folder.is_dir():
        _check_folder(folder)
    elif name.startswith((".", "~", os.sep)) or not (_HUB_NAME.fullmatch(name) or os.sep not in name):
        raise UsageError(f"model {name!r}: there is no such folder")
    else:
        folder = _from_hub(name)
    return PreparedModel(name, str(folder.resolve()), fingerprint(folder))


def fingerprint(folder: Path) -> str:
    """Of the weights: their size, beginning and end, and the configuration. Reading gigabytes would take too long."""
    digest = hashlib.sha256()
    weights = folder / "model.bin"
    size = weights.stat().st_size
    digest.update(str(size).encode())
    with weights.open("rb") as file:
        digest.update(file.read(_SAMPLED))
        file.seek(max(0, size - _SAMPLED))
        digest.update(file.read(_SAMPLED))
    config = folder / "config.json"
    if config.exists():
        digest.update(config.read_bytes())
    return digest.hexdigest()[:32]


def _check_folder(folder: Path) -> None:
    if not (folder / "model.bin").is_file():
        raise UsageError(
            f"model {str(folder)!r} is a folder without a model.bin: it must hold a Whisper model in "
            "CTranslate2's format (ct2-transformers-converter makes one)"
        )


def _from_hub(name: str) -> Path:
    faster_whisper = import_faster_whisper()
    sizes = faster_whisper.available_models()
    if "/" not in name and name not in sizes:
        raise UsageError(f"there is no model {name!r}; sizes are {', '.join(sizes)}; or give a folder, or a hub name")
    try:
        return Path(faster_whisper.download_model(name, local_files_only=True))
    except Exception:
        pass  # not in the cache: the hub is asked, if that is allowed
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "TRUE", "YES", "ON"}:
        raise UsageError(f"model {name!r} is not on this machine, and HF_HUB_OFFLINE forbids to fetch it; {_ADVICE}")
    print(f"fetching the model {name!r} from the Hugging Face hub …", file=sys.stderr, flush=True)
    try:
        return Path(faster_whisper.download_model(name))
    except Exception as error:  # the hub's client raises whatever its HTTP library does
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(f"model {name!r} is not on this machine and cannot be fetched: {reason}; {_ADVICE}") from error


_ADVICE = "give the folder of a model in CTranslate2's format, or run once where the hub can be reached"
