"""A Whisper model made from nothing: a megabyte, a tenth of a second, and faster-whisper takes it for real.

    build(folder, text="good morning")              says that sentence about whatever it hears
    build(folder, text="...", multilingual=True)     and detects English
    build(folder, text=None)                         random weights: garbage that depends on what it hears

How a model is made to say a sentence: attention and feed-forward weights are zero, so what leaves the decoder is the
embedding of the last token. Each token of the sentence lights a feature of its own, which votes for the next token:

    <|startoftranscript|> ─► <|0.00|> ─► good ─► morning ─► <|1.00|> ─► <|endoftext|>
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2.specs import whisper_spec
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

LANGUAGES = re.findall(
    r"\w+",
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg lt la mi ml "
    "cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc ka be tg sd gu am "
    "yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su",
)
_WIDTH, _HEADS, _MELS = 64, 2, 80


def build(
    folder: Path, text: str | None = "hello from a tiny model", *, multilingual: bool = False, seed: int = 0
) -> Path:
    """Write the model into ``folder`` and return it. The words of ``text`` must differ from each other."""
    words = text.split() if text is not None else []
    if len(set(words)) != len(words):
        raise ValueError("the words must differ: each token can be followed by one other only")
    tokenizer = _tokenizer(words, multilingual)
    spec = whisper_spec.WhisperSpec(1, _HEADS, 1, _HEADS)
    noise = np.random.default_rng(seed)
    _fill_layers(spec, noise, scale=1.0 if text is None else 0.0)
    if text is None:
        _speak_at_random(spec.decoder, tokenizer, noise)
    else:
        _speak(spec.decoder, tokenizer, words, multilingual)
    _save(spec, tokenizer, folder)
    return folder


def _tokenizer(words: list[str], multilingual: bool) -> Tokenizer:
    vocabulary = {symbol: number for number, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = []
    for word in words:  # merge by merge up to one token for the word, with the space before it
        piece = "\u0120"
        for letter in word:
            if piece + letter not in vocabulary:
                vocabulary[piece + letter] = len(vocabulary)
                merges.append((piece, letter))
            piece += letter
    if multilingual:
        vocabulary[""] = len(vocabulary)  # by this token CTranslate2 knows a multilingual model
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [
        "<|endoftext|>",
        "<|startoftranscript|>",
        *(f"<|{language}|>" for language in LANGUAGES),
        *("<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"),
    ]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    times = [f"<|{step * 0.02:.2f}|>" for step in range(1501)]
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in times])
    return tokenizer


def _fill_layers(spec: Any, noise: np.random.Generator, scale: float) -> None:
    def normal(part: Any) -> None:
        part.gamma, part.beta = np.ones(_WIDTH, np.float32), np.zeros(_WIDTH, np.float32)

    def linear(part: Any, outputs: int, inputs: int) -> None:
        part.weight = (noise.standard_normal((outputs, inputs)) * scale / np.sqrt(inputs)).astype(np.float32)
        part.bias = np.zeros(outputs, np.float32)

    def self_attention(part: Any) -> None:
        normal(part.layer_norm)
        linear(part.linear[0], 3 * _WIDTH, _WIDTH)
        linear(part.linear[1], _WIDTH, _WIDTH)

    def feed_forward(part: Any) -> None:
        normal(part.layer_norm)
        linear(part.linear_0, 4 * _WIDTH, _WIDTH)
        linear(part.linear_1, _WIDTH, 4 * _WIDTH)

    encoder, decoder = spec.encoder, spec.decoder
    for convolution, channels in ((encoder.conv1, _MELS), (encoder.conv2, _WIDTH)):
        convolution.weight = (noise.standard_normal((_WIDTH, channels, 3)) * 0.1).astype(np.float32)
        convolution.bias = np.zeros(_WIDTH, np.float32)
    encoder.position_encodings.encodings = (noise.standard_normal((1500, _WIDTH)) * 0.1).astype(np.float32)
    normal(encoder.layer_norm)
    normal(decoder.layer_norm)
    for layer in (*encoder.layer, *decoder.layer):
        self_attention(layer.self_attention)
        feed_forward(layer.ffn)
    for layer in decoder.layer:
        normal(layer.attention.layer_norm)
        linear(layer.attention.linear[0], _WIDTH, _WIDTH)
        linear(layer.attention.linear[1], 2 * _WIDTH, _WIDTH)
        linear(layer.attention.linear[2], _WIDTH, _WIDTH)


def _speak(decoder: Any, tokenizer: Tokenizer, words: list[str], multilingual: bool) -> None:
    number = tokenizer.token_to_id
    spoken = [number("\u0120" + word) for word in words]
    chain = [number("<|0.00|>"), *spoken, number(f"<|{0.5 * len(words):.2f}|>"), number("<|endoftext|>")]
    begins = {
        number(token): chain[0] for token in ("<|startoftranscript|>", "<|transcribe|>", "<|translate|>", "<|en|>")
    }
    follows = {**begins, number("<|notimestamps|>"): spoken[0], **dict(itertools.pairwise(chain))}
    if 2 * len(follows) > _WIDTH:
        raise ValueError(f"the text is too long: {len(follows)} steps, {_WIDTH // 2} features")
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    embedding, projection = np.zeros((2, size, _WIDTH), np.float32)
    # Every other feature only: the 8-bit kernels of CPUs without VNNI add products in pairs, with saturation.
    features = {token: 2 * place for place, token in enumerate(follows)}
    for token, successor in follows.items():
        feature = features[token]
        embedding[token, feature] = 8.0
        projection[successor, feature] += 4.0
    if multilingual:  # asked for the language after the first token, it says English
        projection[number("<|en|>"), features[number("<|startoftranscript|>")]] += 3.0
    decoder.embeddings.weight, decoder.projection.weight = embedding, projection
    decoder.projection.bias = np.zeros(size, np.float32)
    decoder.position_encodings.encodings = np.zeros((448, _WIDTH), np.float32)


def _speak_at_random(decoder: Any, tokenizer: Tokenizer, noise: np.random.Generator) -> None:
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    decoder.embeddings.weight = noise.standard_normal((size, _WIDTH)).astype(np.float32)
    decoder.projection.weight = (noise.standard_normal((size, _WIDTH)) / np.sqrt(_WIDTH)).astype(np.float32)
    decoder.projection.bias = np.zeros(size, np.float32)
    decoder.projection.bias[tokenizer.token_to_id("<|startoftranscript|>") :] = -30.0  # never a control token
    decoder.position_encodings.encodings = noise.standard_normal((448, _WIDTH)).astype(np.float32)


def _save(spec: Any, tokenizer: Tokenizer, folder: Path) -> None:
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    spec.register_vocabulary([tokenizer.id_to_token(number) for number in range(size)])
    spec.config.suppress_ids, spec.config.suppress_ids_begin = [], []
    spec.config.lang_ids = [tokenizer.token_to_id(f"<|{language}|>") for language in LANGUAGES]
    spec.config.alignment_heads = [[0, 0]]
    spec.validate()
    spec.optimize(quantization="int8")
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    tokenizer.save(str(folder / "tokenizer.json"))
    extractor = {"feature_size": _MELS, "sampling_rate": 16000, "hop_length": 160, "chunk_length": 30, "n_fft": 400}
    (folder / "preprocessor_config.json").write_text(json.dumps(extractor), encoding="utf-8")
