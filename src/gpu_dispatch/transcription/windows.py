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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

WINDOW_S = 30.0  # Whisper's own; shorter input is padded to it by the engine
LONGEST_PAUSE_S = (
    5.0  # a longer one ends the window: models invent text in long silences; cutting more costs more calls
)

Samples = Any  # a NumPy array, in one dimension


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


def cut_stream(
    blocks: Iterable[Samples], find_windows: Callable[[Samples], list[Span]], margin: int
) -> Iterator[tuple[Span, Samples]]:
    """The windows of sound that comes in blocks, each as (where it is in the whole, its samples).

    A window that comes nearer than ``margin`` to the end of a block waits for the next one: the voice may go on there.
    """
    import numpy as np

    begins = 0
    upcoming = iter(blocks)
    samples = next(upcoming, None)
    while samples is not None:
        following = next(upcoming, None)
        windows = find_windows(samples)
        cut = len(samples)
        if following is not None and windows and windows[-1].end > len(samples) - margin:
            cut = windows.pop().start
        for window in windows:
            yield Span(begins + window.start, begins + window.end), samples[window.start : window.end]
        begins += cut
        samples = following if following is None or cut == len(samples) else np.concatenate([samples[cut:], following])
