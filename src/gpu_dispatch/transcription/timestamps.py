"""From the tokens of Whisper to segments with times. Pure.

Whisper writes ``<|0.00|> some text<|2.40|><|2.80|> more text<|4.00|>``: a time before and after each segment, in steps
of 20 ms, as tokens above all others. It forgets the last one, or the first, often enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

STEP_S = 0.02


@dataclass(frozen=True, slots=True)
class TimedTokens:
    start: float
    end: float
    tokens: tuple[int, ...]
    """Text alone."""


def split_at_times(tokens: Sequence[int], *, first_time: int, end_of_text: int, duration_s: float) -> list[TimedTokens]:
    """Cut at the time tokens (``first_time`` and above); other specials (``end_of_text`` up to there) are dropped.

    Nothing lasts beyond ``duration_s``: the model hears 30 s, whatever part of it is padding.
    """
    found: list[TimedTokens] = []
    start = 0.0
    text: list[int] = []
    for token in tokens:
        if token >= first_time:
            at = min((token - first_time) * STEP_S, duration_s)
            if text:
                found.append(_timed(start, at, text, duration_s))
                text = []
            start = at
        elif token < end_of_text:
            text.append(token)
    if text:
        found.append(_timed(start, duration_s, text, duration_s))
    return found


def _timed(start: float, end: float, text: list[int], duration_s: float) -> TimedTokens:
    if end <= start:  # the model's clock went back, or ran beyond the end: all that is known is "until the end"
        end = duration_s
    return TimedTokens(round(start, 3), round(end, 3), tuple(text))
