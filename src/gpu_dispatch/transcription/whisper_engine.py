"""Whisper through faster-whisper (CTranslate2), windows of many files in one call of the model.

    windows ─► log-Mel features (I/O threads) ─► stack, padded to 30 s ─► encode ─► language ─► generate ─► segments

faster-whisper's own pipeline batches the windows of one file. Here the batch is made by the caller, from any files:
so the model is called on the level below, ``WhisperModel.encode`` and CTranslate2's ``generate``.

Decoding is greedy or by beam, never by sampling: a file's text depends on the file and the settings, not on what
else was in its batch.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpu_dispatch.transcription.engine import EngineError, Heard, PreparedModel, Window
from gpu_dispatch.transcription.models import prepare_whisper_model
from gpu_dispatch.transcription.settings import TranscriptionSettings
from gpu_dispatch.transcription.speech import as_floats
from gpu_dispatch.transcription.third_party import import_faster_whisper
from gpu_dispatch.transcription.timestamps import TimedTokens, split_at_times
from gpu_dispatch.transcription.transcript import Segment
from gpu_dispatch.transcription.words import with_words

if TYPE_CHECKING:
    import numpy as np

_FRAMES = 3000  # of 10 ms: what the encoder was trained on. Shorter input is faster, and repeats itself: measured
_MOST_TOKENS = 224  # half of Whisper's context, for 30 s; what is longer is a loop
_LOOPING = 2.4  # zlib makes so much of ordinary text at best; OpenAI's threshold
_SHORTEST_TAIL_S = 1.0  # less than that after the last words is the padding of the voice detector, and no voice
_SILENT_PROB, _SILENT_LOGPROB = 0.6, -1.0  # OpenAI's: unsure of the words and fairly sure that there are none


class FasterWhisperEngine:
    """The engine that is shipped."""

    @classmethod
    def prepare_model(cls, name: str) -> PreparedModel:
        return prepare_whisper_model(name)

    def load(self, model: str, device: str, settings: TranscriptionSettings, cpu_threads: int) -> None:
        faster_whisper = import_faster_whisper()
        kind, index = _placed(device)
        compute_type = settings.compute_type if settings.compute_type != "auto" else _compute_type(kind, index)
        try:
            self._model: Any = faster_whisper.WhisperModel(
                model, device=kind, device_index=index, compute_type=compute_type, cpu_threads=cpu_threads
            )
        except (RuntimeError, ValueError) as error:
            raise EngineError(
                f"the model in {model} cannot be loaded on {device} as {compute_type}: {error}"
            ) from error
        self._settings = settings
        self._multilingual = bool(self._model.model.is_multilingual)
        self._check_language()
        self._tokenizer_cls = faster_whisper.tokenizer.Tokenizer
        self._tokenizers: dict[str, Any] = {}
        self._suppressed = self._tokens_to_suppress()

    def prepare_sound(self, samples: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Features of int16 samples, not yet padded: as much memory as the samples, and the device need not wait."""
        features: np.ndarray[Any, Any] = self._model.feature_extractor(as_floats(samples))[..., :-1]
        return features[..., :_FRAMES]

    def transcribe(self, windows: Sequence[Window]) -> list[Heard]:
        """One call of the model; a second one for those windows of which it has left out the end."""
        answers, until = self._hear(windows)
        parts = list(zip(range(len(windows)), [0.0] * len(windows), windows, until, strict=True))
        while tails := [_tail(answers, *part) for part in parts if _stopped_early(*part)]:
            more, until = self._hear([window for _, _, window in tails])
            for (i, begins, _), heard in zip(tails, more, strict=True):
                later = tuple(segment.later(begins) for segment in heard.segments)
                answers[i] = replace(answers[i], segments=answers[i].segments + later)
            parts = [(*tail, cut) for tail, cut in zip(tails, until, strict=True)]
        return answers

    # --- the steps ------------------------------------------------------------------------------------------

    def _hear(self, windows: Sequence[Window]) -> tuple[list[Heard], list[float]]:
        """What is heard, and for each window the second at which the model stopped to listen."""
        features = _stacked([window.sound for window in windows])
        encoded = self._model.encode(features)
        detected = self._languages(windows, encoded)
        languages = [language for language, _ in detected]
        found = self._generate(encoded, languages)
        looping = [i for i, result in enumerate(found) if self._ratio(result, languages[i]) > _LOOPING]
        if looping:
            again = self._model.encode(features[looping])
            retried = self._generate(again, [languages[i] for i in looping], no_repeat_ngram_size=3)
            for i, result in zip(looping, retried, strict=True):
                found[i] = result
        segments = [self._segments(*each) for each in zip(windows, found, languages, strict=True)]
        until = [
            pairs[-1][1].end if pairs else window.duration_s for window, pairs in zip(windows, segments, strict=True)
        ]
        if self._settings.word_timestamps:
            segments = self._aligned(windows, segments, encoded, languages)
        answers = [
            Heard(tuple(segment for segment, _ in pairs), language, probability)
            for pairs, (language, probability) in zip(segments, detected, strict=True)
        ]
        return answers, until

    def _languages(self, windows: Sequence[Window], encoded: Any) -> list[tuple[str, float | None]]:
        """For each window its language, with a probability if it was detected now: once per file, in its first."""
        if not self._multilingual:
            return [("en", None)] * len(windows)
        detected: dict[int, tuple[str, float | None]] = {}
        if any(window.language is None for window in windows):
            guesses = self._model.model.detect_language(encoded)
            for window, guess in zip(windows, guesses, strict=True):
                token, probability = guess[0]
                detected.setdefault(window.source, (token[2:-2], round(float(probability), 4)))
        return [(w.language, None) if w.language is not None else detected[w.source] for w in windows]

    def _generate(self, encoded: Any, languages: Sequence[str], **options: Any) -> list[Any]:
        prompts = [self._prompt(language) for language in languages]
        results = self._model.model.generate(
            encoded,
            prompts,
            beam_size=self._settings.beam_size,
            max_length=min(self._model.max_length, len(prompts[0]) + _MOST_TOKENS),
            suppress_tokens=self._suppressed,
            return_scores=True,
            return_no_speech_prob=True,
            **options,
        )
        return list(results)

    def _segments(self, window: Window, result: Any, language: str) -> list[tuple[Segment, TimedTokens]]:
        tokens = result.sequences_ids[0]
        avg_logprob = _finite(result.scores[0] * len(tokens) / (len(tokens) + 1))
        no_speech = _finite(result.no_speech_prob)
        if no_speech is not None and no_speech > _SILENT_PROB and (avg_logprob or 0.0) < _SILENT_LOGPROB:
            return []
        tokenizer = self._tokenizer(language)
        timed = split_at_times(
            tokens,
            first_time=tokenizer.timestamp_begin,
            end_of_text=tokenizer.eot,
            duration_s=window.duration_s,
        )
        return [
            (Segment(each.start, each.end, tokenizer.decode(list(each.tokens)), None, avg_logprob, no_speech), each)
            for each in timed
        ]

    def _aligned(
        self,
        windows: Sequence[Window],
        segments: list[list[tuple[Segment, TimedTokens]]],
        encoded: Any,
        languages: Sequence[str],
    ) -> list[list[tuple[Segment, TimedTokens]]]:
        """The segments with a time for each word. One alignment per language: all rows of one share a prompt."""
        aligned = list(segments)
        frames = [min(_FRAMES, math.ceil(window.duration_s * 100)) for window in windows]
        for language in dict.fromkeys(languages):
            rows = [i for i, each in enumerate(languages) if each == language and segments[i]]
            texts = [[t for _, timed in pairs for t in timed.tokens] for pairs in segments]
            if not rows:
                continue
            alignments = self._model.find_alignment(self._tokenizer(language), texts, encoded, frames)
            for row in rows:
                aligned[row] = with_words(segments[row], alignments[row], windows[row].duration_s)
        return aligned

    # --- vocabulary -----------------------------------------------------------------------------------------

    def _tokenizer(self, language: str) -> Any:
        if language not in self._tokenizers:
            self._tokenizers[language] = self._tokenizer_cls(
                self._model.hf_tokenizer, self._multilingual, task=self._settings.task, language=language
            )
        return self._tokenizers[language]

    def _prompt(self, language: str) -> list[int]:
        tokenizer = self._tokenizer(language)
        expected = self._settings.initial_prompt
        previous = tokenizer.encode(" " + expected.strip()) if expected and expected.strip() else []
        return list(self._model.get_prompt(tokenizer, previous_tokens=previous))

    def _tokens_to_suppress(self) -> list[int]:
        """Symbols that stand for no sound, and the control tokens that end nothing."""
        own = self._tokenizer("en")
        control = (own.transcribe, own.translate, own.sot, own.sot_prev, own.sot_lm, own.no_speech)
        return sorted({*own.non_speech_tokens, *control})

    def _check_language(self) -> None:
        language, known = self._settings.language, self._model.supported_languages
        if language is not None and language not in known:
            if not self._multilingual:
                raise EngineError(f"this model knows only English; language {language!r} needs one without '.en'")
            raise EngineError(f"the model does not know the language {language!r}; it knows {', '.join(known)}")
        if self._settings.task == "translate" and not self._multilingual:
            raise EngineError("this model knows only English: it cannot translate; use one without '.en'")

    def _ratio(self, result: Any, language: str) -> float:
        tokenizer = self._tokenizer(language)
        text = tokenizer.decode([t for t in result.sequences_ids[0] if t < tokenizer.eot]).encode()
        return len(text) / len(zlib.compress(text))


def _stopped_early(_number: int, _begins: float, window: Window, cut: float) -> bool:
    """Whether the model has left out the end of the window: it does so now and then, after a full stop."""
    return cut >= _SHORTEST_TAIL_S and window.duration_s - cut >= _SHORTEST_TAIL_S


def _tail(
    answers: Sequence[Heard], number: int, begins: float, window: Window, cut: float
) -> tuple[int, float, Window]:
    """Which window it belongs to, where in that it begins, and what there is to hear."""
    sound = window.sound[..., round(cut * 100) :]
    language = answers[number].language
    return number, begins + cut, replace(window, sound=sound, duration_s=window.duration_s - cut, language=language)


def _placed(device: str) -> tuple[str, int]:
    kind, _, index = device.partition(":")
    if kind not in ("cuda", "cpu"):
        raise EngineError(f"faster-whisper runs on NVIDIA GPUs and on CPUs, not on {device}: use gpus='cpu:1'")
    return kind, int(index or 0)


def _compute_type(kind: str, index: int) -> str:
    """float16 on a GPU (float32 where it has no fast float16), int8 on a CPU."""
    if kind == "cpu":
        return "int8"
    import ctranslate2

    if ctranslate2.get_cuda_device_count() <= index:
        raise EngineError(
            "CTranslate2 sees no CUDA device here: the NVIDIA driver or the CUDA 12 libraries "
            "(libcublas.so.12) are missing (pip install nvidia-cublas-cu12); gpus='cpu:1' runs without a GPU"
        )
    return "float16" if "float16" in ctranslate2.get_supported_compute_types(kind, index) else "float32"


def _stacked(features: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    import numpy as np

    stacked: np.ndarray[Any, Any] = np.zeros((len(features), features[0].shape[0], _FRAMES), dtype=np.float32)
    for row, each in zip(stacked, features, strict=True):
        row[:, : each.shape[1]] = each
    return stacked


def _finite(value: float) -> float | None:
    return round(float(value), 5) if math.isfinite(value) else None
