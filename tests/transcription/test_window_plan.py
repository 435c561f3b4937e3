"""What the model gets at once: pure planning."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dispatch.transcription.ahead import run_ahead
from gpu_dispatch.transcription.timestamps import split_at_times
from gpu_dispatch.transcription.transcript import Segment, Word
from gpu_dispatch.transcription.windows import Span, cut_evenly, cut_stream, plan_windows
from gpu_dispatch.transcription.words import joined_punctuation, with_words

RATE = 10  # samples per second: a window is 300, the longest pause 50


@pytest.mark.parametrize(
    ("spans", "windows"),
    [
        ([], []),
        ([(0, 20)], [(0, 20)]),
        ([(0, 20), (30, 40), (60, 90)], [(0, 90)]),  # pauses inside a window are kept
        ([(0, 20), (71, 90)], [(0, 20), (71, 90)]),  # a long silence is left out
        ([(0, 200), (210, 301)], [(0, 200), (210, 301)]),  # cut in the pause, not at 30 s
        ([(0, 200), (210, 300)], [(0, 300)]),
        ([(100, 500)], [(100, 300), (300, 500)]),  # nowhere to cut but in the middle
        ([(0, 0)], []),
    ],
)
def test_windows_cover_the_voice_and_are_cut_in_pauses(spans, windows):
    assert plan_windows([Span(*s) for s in spans], RATE) == [Span(*w) for w in windows]


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=30))
def test_no_voice_is_lost_or_heard_twice(lengths):
    spans, at = [], 0
    for pause, length in lengths:
        spans.append(Span(at + pause, at + pause + length))
        at = spans[-1].end

    windows = plan_windows(spans, RATE)

    heard = [s for w in windows for s in range(w.start, w.end)]
    assert len(heard) == len(set(heard))
    assert set(heard) >= {s for span in spans for s in range(span.start, span.end)}
    assert all(0 < len(w) <= 300 for w in windows)
    assert windows == sorted(windows, key=lambda w: w.start)


@given(st.integers(0, 5000), st.integers(1, 400))
def test_cutting_evenly_loses_nothing(length, longest):
    parts = cut_evenly(Span(7, 7 + length), longest)

    assert [s for p in parts for s in range(p.start, p.end)] == list(range(7, 7 + length))
    assert all(len(p) <= longest for p in parts)


def loud_parts(samples: np.ndarray) -> list[Span]:
    """A voice detector for numbers: whatever is not zero is voice."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], (samples != 0).astype(int), [0]])))
    return plan_windows([Span(int(a), int(b)) for a, b in edges.reshape(-1, 2)], RATE)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 120)), max_size=12),
    st.lists(st.integers(1, 500), min_size=1, max_size=30),
)
def test_a_stream_gives_every_sample_of_voice_once_and_in_its_place(parts, sizes):
    whole = np.concatenate([np.zeros(0, int), *(np.full(length, int(voice)) for voice, length in parts)])
    whole *= np.arange(1, len(whole) + 1)  # a sample of voice is its own place
    cuts = np.cumsum(sizes)
    blocks = [block for block in np.split(whole, cuts[cuts < len(whole)]) if len(block)]

    windows = list(cut_stream(blocks, loud_parts, margin=10))

    for span, samples in windows:
        assert (whole[span.start : span.end] == samples).all()
    heard = np.concatenate([np.zeros(0, int), *(samples for _, samples in windows)])
    assert (heard[heard != 0] == whole[whole != 0]).all()
    assert all(len(span) <= 300 for span, _ in windows)


def test_voice_across_the_border_of_two_blocks_is_not_cut_there():
    voice = np.ones(200, int)

    windows = list(cut_stream([np.concatenate([np.zeros(100, int), voice[:60]]), voice[60:]], loud_parts, margin=10))

    assert [(span.start, span.end) for span, _ in windows] == [(100, 300)]


def test_what_is_made_ahead_comes_in_order_and_what_it_raises_is_raised():
    def numbers():
        yield from range(50)
        raise ValueError("the fiftieth")

    made = run_ahead(numbers(), depth=3)

    assert [next(made) for _ in range(50)] == list(range(50))
    with pytest.raises(ValueError, match="the fiftieth"):
        next(made)


def test_a_consumer_that_stops_early_stops_the_thread():
    made = run_ahead(itertools.count(), depth=2)
    assert next(made) == 0
    made.close()

    assert not [thread for thread in threading.enumerate() if thread.name == "gpu-dispatch-ahead"]


def at(seconds: float) -> int:
    return 1000 + round(seconds / 0.02)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([], []),
        ([at(0), 5, 6, at(2.4)], [(0.0, 2.4, (5, 6))]),
        ([at(0), 5, at(2.0), at(3.0), 6, at(4.0)], [(0.0, 2.0, (5,)), (3.0, 4.0, (6,))]),
        ([at(0), 5, at(2.0), 6, at(4.0)], [(0.0, 2.0, (5,)), (2.0, 4.0, (6,))]),  # one time between two segments
        ([5, 6], [(0.0, 10.0, (5, 6))]),  # no times at all
        ([at(1.0), 5, 6], [(1.0, 10.0, (5, 6))]),  # the last one forgotten
        ([at(0), 5, at(28.0)], [(0.0, 10.0, (5,))]),  # into the padding
        ([at(4.0), 5, at(2.0)], [(4.0, 10.0, (5,))]),  # backwards
        ([at(0), at(0)], []),
        ([at(0), 5, 900, at(2.0), 901], [(0.0, 2.0, (5,))]),  # control tokens are no text
    ],
)
def test_tokens_are_cut_at_their_times(tokens, expected):
    found = split_at_times(tokens, first_time=1000, end_of_text=900, duration_s=10.0)

    assert [(each.start, each.end, each.tokens) for each in found] == expected


def test_words_are_dealt_to_their_segments():
    timed = split_at_times(
        [at(0), 1, 2, 3, at(2.0), at(2.0), 4, at(3.0)], first_time=1000, end_of_text=900, duration_s=2.9
    )
    segments = [(Segment(t.start, t.end, "x"), t) for t in timed]
    alignment = [
        {"word": " so", "tokens": [1, 2], "start": 0.1, "end": 0.5, "probability": 0.9},
        {"word": ",", "tokens": [3], "start": 0.5, "end": 0.6, "probability": 0.5},
        {"word": " yes", "tokens": [4], "start": 2.1, "end": 9.0, "probability": 0.8},
    ]

    (first, _), (second, _) = with_words(segments, alignment, 2.9)

    assert first.words == (Word(0.1, 0.6, " so,", 0.9),)
    assert (first.start, first.end) == (0.1, 0.6)
    assert second.words == (Word(2.1, 2.9, " yes", 0.8),)


def test_a_segment_without_aligned_words_keeps_its_times():
    timed = split_at_times([at(0), 1, at(2.0)], first_time=1000, end_of_text=900, duration_s=2.9)

    ((segment, _),) = with_words([(Segment(0.0, 2.0, "x"), timed[0])], [], 2.9)

    assert (segment.start, segment.end, segment.words) == (0.0, 2.0, ())


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([" so", ",", " yes", "!"], [" so,", " yes!"]),
        ([" “", "Yes", "”", "."], [" “Yes”."]),
        ([" a", " -", " b"], [" a", " -b"]),
        ([" (", "or", ")", " not"], [" (or)", " not"]),
        ([" end", " ("], [" end", " ("]),
    ],
)
def test_punctuation_clings_to_its_word(texts, expected):
    words = [Word(float(i), i + 0.5, text, 1.0) for i, text in enumerate(texts)]

    assert [word.text for word in joined_punctuation(words)] == expected
