"""From the voice in many files to the batches that a model gets, and back. Pure: numbers in, numbers out.

    file A  ──voice──►  ▇▇ ▇▇▇▇  ▇  ──►  [window A0] [window A1]  ┐
    file B  ──voice──►  ▇▇          ──►  [window B0]              ├─►  one call of the model
    file C  ──voice──►      ▇▇▇     ──►  [window C0]              ┘

A *span* is a stretch of voice; a *window* is what the model hears at once, 30 s at most, always of one file: so the
text of a file does not depend on its neighbours in the batch. A window keeps the short pauses between its spans, so
that a time in it is a time in the file, less the window's start.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

WINDOW_S = 30.0  # Whisper's own; shorter input is padded to it by the engine
LONGEST_PAUSE_S = (
    5.0  # a longer one ends the window: models invent text in long silences; cutting more costs more calls
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Span:
    """Samples ``start`` to ``end``."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def plan_windows(spans: Iterable[Span], sample_rate: int) -> list[Span]:
    """Cover the spans, which are in order, with as few windows as their pauses allow, cutting only in pauses.

    A span longer than a window is cut where the window ends.
    """
    longest = int(WINDOW_S * sample_rate)
    pause = int(LONGEST_PAUSE_S * sample_rate)
    windows: list[Span] = []
    for span in spans:
        last = windows[-1] if windows else None
        if last is not None and span.end - last.start <= longest and span.start - last.end <= pause:
            windows[-1] = Span(last.start, max(last.end, span.end))
        else:
            windows.extend(cut_evenly(span, longest))
    return windows


def cut_evenly(span: Span, longest: int) -> list[Span]:
    """Into equal parts no longer than ``longest``; none for an empty span."""
    if not len(span):
        return []
    parts = -(-len(span) // longest)
    bounds = [span.start + len(span) * part // parts for part in range(parts + 1)]
    return [Span(start, end) for start, end in itertools.pairwise(bounds)]


def joined(blocks: Iterable[Iterable[Span]], nearer_than: int) -> list[Span]:
    """The spans of consecutive blocks as one list; those that touch across a border become one."""
    spans: list[Span] = []
    for block in blocks:
        for number, span in enumerate(block):
            if number == 0 and spans and span.start - spans[-1].end <= nearer_than:
                spans[-1] = Span(spans[-1].start, max(spans[-1].end, span.end))
            else:
                spans.append(span)
    return spans


def in_batches(windows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """As few batches as possible, of nearly equal size: 17 windows in batches of 16 are 9 and 8, not 16 and 1."""
    count = -(-len(windows) // size)
    for number in range(count):
        yield windows[len(windows) * number // count : len(windows) * (number + 1) // count]
