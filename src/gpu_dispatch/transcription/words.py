"""Words with times, from an alignment of tokens with sound. Pure.

An alignment is a list of ``{"word", "tokens", "start", "end", "probability"}``, in order, over a window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpu_dispatch.transcription.timestamps import TimedTokens
from gpu_dispatch.transcription.transcript import Segment, Word

_CLINGS_TO_NEXT = "\"'“¿([{-"
_CLINGS_TO_PREVIOUS = "\"'.。,，!！?？:：”)]}、"


def with_words(
    segments: Sequence[tuple[Segment, TimedTokens]], alignment: Sequence[Mapping[str, Any]], duration_s: float
) -> list[tuple[Segment, TimedTokens]]:
    """Deal the aligned words out to the segments, by counting tokens, and let the words say when it is spoken."""
    remaining = list(alignment)
    done = []
    for segment, timed in segments:
        own: list[Mapping[str, Any]] = []
        counted = 0
        while remaining and counted < len(timed.tokens):
            own.append(remaining.pop(0))
            counted += len(own[-1]["tokens"])
        words = joined_punctuation([_word(each, duration_s) for each in own if each["word"]])
        if words:
            segment = replace(segment, start=words[0].start, end=max(words[-1].end, words[0].start))
        done.append((replace(segment, words=tuple(words)), timed))
    return done


def joined_punctuation(words: Sequence[Word]) -> list[Word]:
    """A comma belongs to the word before it, an opening quote to the one after it."""
    joined: list[Word] = []
    opening: Word | None = None
    for word in words:
        mark = word.text.strip()
        if opening is not None:
            word = replace(word, text=opening.text + word.text.lstrip() if mark else opening.text, start=opening.start)
            opening = None
            mark = word.text.strip()
        if mark and mark in _CLINGS_TO_NEXT and word.text.startswith(" "):
            opening = word
        elif joined and mark and mark in _CLINGS_TO_PREVIOUS and not word.text.startswith(" "):
            joined[-1] = replace(joined[-1], text=joined[-1].text + mark, end=word.end)
        else:
            joined.append(word)
    if opening is not None:
        joined.append(opening)
    return joined


def _word(aligned: Mapping[str, Any], duration_s: float) -> Word:
    start = min(float(aligned["start"]), duration_s)
    end = min(max(float(aligned["end"]), start), duration_s)
    return Word(round(start, 3), round(end, 3), aligned["word"], round(float(aligned["probability"]), 4))
