"""What was heard in one file: values only, no model and no file format.

    Word  ⊂  Segment  ⊂  Transcript

All times are seconds from the beginning of the file.

Not here: how a transcript is written down (formats.py), where (outputs.py), how it is made (worker.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Word:
    start: float
    end: float
    text: str
    """With the space before it, as the model writes it: joining the words of a segment gives its text."""
    probability: float | None = None

    def later(self, by_s: float) -> Word:
        return replace(self, start=round(self.start + by_s, 3), end=round(self.end + by_s, 3))


@dataclass(frozen=True, slots=True)
class Segment:
    """About a sentence: what a subtitle shows at once."""

    start: float
    end: float
    text: str
    words: tuple[Word, ...] | None = None
    """``None`` when word timestamps were not asked for."""
    avg_logprob: float | None = None
    no_speech_prob: float | None = None

    def later(self, by_s: float) -> Segment:
        words = self.words and tuple(word.later(by_s) for word in self.words)
        return replace(self, start=round(self.start + by_s, 3), end=round(self.end + by_s, 3), words=words)


@dataclass(frozen=True, slots=True)
class Transcript:
    segments: tuple[Segment, ...]
    duration_s: float
    speech_s: float
    """How much of it the voice detector took for speech."""
    language: str | None = None
    language_probability: float | None = None

    @property
    def text(self) -> str:
        return " ".join(segment.text for segment in self.segments)


def tidied(segments: Iterable[Segment], duration_s: float) -> tuple[Segment, ...]:
    """In order of time, inside the file, without empty ones, each with a beginning before its end.

    Players and parsers reject cues that run backwards or last no time; a model does not know how long the file is.
    """
    kept = []
    previous_start = 0.0
    for segment in sorted(segments, key=lambda s: s.start):
        text = " ".join(segment.text.split())
        if not text:
            continue
        start = min(max(segment.start, previous_start), duration_s)
        end = min(segment.end, duration_s)
        if end - start < 0.001:
            end = start + 0.001
        previous_start = start
        kept.append(replace(segment, start=round(start, 3), end=round(end, 3), text=text))
    return tuple(kept)


def to_mapping(transcript: Transcript) -> dict[str, Any]:
    """For JSON. ``from_mapping`` is its inverse."""
    return {
        "duration_s": transcript.duration_s,
        "speech_s": transcript.speech_s,
        "language": transcript.language,
        "language_probability": transcript.language_probability,
        "text": transcript.text,
        "segments": [{"id": number, **asdict(segment)} for number, segment in enumerate(transcript.segments)],
    }


def from_mapping(data: Mapping[str, Any]) -> Transcript:
    """Raises KeyError, TypeError or ValueError when ``data`` is not what ``to_mapping`` makes."""
    return Transcript(
        segments=tuple(_segment(each) for each in data["segments"]),
        duration_s=float(data["duration_s"]),
        speech_s=float(data["speech_s"]),
        language=data["language"],
        language_probability=data["language_probability"],
    )


def _segment(data: Mapping[str, Any]) -> Segment:
    words = data["words"]
    return Segment(
        start=float(data["start"]),
        end=float(data["end"]),
        text=str(data["text"]),
        words=None if words is None else tuple(Word(**word) for word in words),
        avg_logprob=data["avg_logprob"],
        no_speech_prob=data["no_speech_prob"],
    )
