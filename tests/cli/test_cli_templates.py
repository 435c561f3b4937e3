"""What `init` writes, `run` runs; where its framework is not installed, one line says what to install."""

from __future__ import annotations

import math
import subprocess
import sys
import wave
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

# A sentence-transformers model made from nothing: two layers, a vocabulary of letters.
TINY_EMBEDDING_MODEL = """
import string, sys
from pathlib import Path
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast

folder = Path(sys.argv[1])
folder.mkdir()
letters = string.ascii_lowercase
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + letter for letter in letters)]
(folder / "vocab.txt").write_text("\\n".join(words))
BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder / "bert")
shape = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
BertModel(BertConfig(vocab_size=len(words), **shape)).save_pretrained(folder / "bert")
bert = Transformer(str(folder / "bert"))
SentenceTransformer(modules=[bert, Pooling(32)]).save(str(folder / "model"))
"""


def missing(*modules: str) -> bool:
    return any(find_spec(module) is None for module in modules)


@pytest.fixture
def worker(cli, monkeypatch):
    """Write a worker of a kind and run it."""
    monkeypatch.setenv("TMPDIR", str(cli.folder))  # frameworks leave caches there
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def write_and_run(kind: str, name: str, *words: object) -> subprocess.CompletedProcess[str]:
        assert cli.run("init", "worker.py", "--kind", kind).returncode == 0
        return cli.run("run", f"worker.py:{name}", *words, "-o", "out.jsonl", "--gpus", "cpu:1", "--ui", "none")

    return write_and_run


def assert_asks_for(done: subprocess.CompletedProcess[str], package: str) -> None:
    assert done.returncode == 1
    assert f"pip install {package}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_function_needs_nothing(cli, worker):
    (cli.folder / "items.txt").write_text("some words\n")
    done = worker("function", "process", "items.txt", "--setup", "longest=1")
    assert (done.returncode, done.stderr) == (0, "")
    assert cli.results() == [{"characters": 10, "words": 2, "longest": ["words"]}]


def test_a_torch_model_over_images(cli, worker):
    paint = None
    if not missing("PIL"):
        from PIL import Image

        paint = Image.new
    for name, colour in (("blue", (0, 0, 255)), ("red", (255, 0, 0))):
        path = cli.folder / f"{name}.png"
        paint("RGB", (40, 30), colour).save(path) if paint else path.touch()
    (cli.folder / "torn.png").write_bytes(b"\x89PNG")
    done = worker("torch-image", "ImageWorker", "*.png")
    if missing("torch", "PIL"):
        assert_asks_for(done, "torch pillow numpy")
        return
    assert done.returncode == 1, done.stderr
    blue, red, torn = sorted(cli.records(), key=lambda record: record["input"])
    assert blue["result"] == [0.0] * 32 + [1.0] * 16
    assert red["result"] == [1.0] * 16 + [0.0] * 32
    assert "UnidentifiedImageError" in torn["error"]


def test_text_embeddings(cli, worker):
    (cli.folder / "texts.txt").write_text("a dog\na dog\na cat and a bird\n")
    if missing("sentence_transformers"):
        assert_asks_for(worker("text-embedding", "EmbeddingWorker", "texts.txt"), "sentence-transformers")
        return
    subprocess.run([sys.executable, "-c", TINY_EMBEDDING_MODEL, cli.folder / "tiny"], check=True, capture_output=True)
    done = worker("text-embedding", "EmbeddingWorker", "texts.txt", "--setup", "model=tiny/model")
    assert done.returncode == 0, done.stderr
    first, again, other = (np.array(vector) for vector in cli.results())
    assert math.isclose(np.linalg.norm(first), 1.0, abs_tol=1e-5)
    assert np.allclose(first, again, atol=1e-5)
    assert not np.allclose(first, other, atol=1e-3)


def test_whisper(cli, worker):
    time = np.arange(16000 * 2) / 16000
    tone = (8000 * np.sin(2 * np.pi * 220 * time) * (np.sin(2 * np.pi * 3 * time) > 0)).astype("<i2")
    with wave.open(str(cli.folder / "tone.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(tone.tobytes())
    (cli.folder / "torn.wav").write_bytes(b"RIFF")
    if missing("faster_whisper"):
        assert_asks_for(worker("whisper", "WhisperWorker", "*.wav"), "faster-whisper")
        return
    import tiny_whisper  # from tests/support: a real model that says one sentence

    model: Path = tiny_whisper.build(cli.folder / "model", "hello from a tiny model")
    done = worker("whisper", "WhisperWorker", "*.wav", "--setup", f"model={model}", "--setup", "vad=false")
    assert done.returncode == 1, done.stderr
    heard, torn = sorted(cli.records(), key=lambda record: record["input"])
    assert heard["result"]["language"] == "en"
    assert heard["result"]["seconds"] == 2.0
    assert heard["result"]["text"] == "hello from a tiny model"
    assert "InvalidDataError" in torn["error"]


def test_vllm_that_is_not_installed_is_asked_for(cli, worker):
    (cli.folder / "prompts.txt").write_text("hello\n")
    if missing("vllm"):  # as here; with vLLM and its model there is nothing to tell apart in a small test
        assert_asks_for(worker("vllm", "LLMWorker", "prompts.txt"), "vllm")
