"""Cutting a stream of bytes into frames, whatever the pieces it comes in."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dispatch.transport.frames import HEADER, MOST_BYTES, BrokenFrame, FrameKind, FrameReader, header

FRAMES = [(FrameKind.MESSAGE, b"hello"), (FrameKind.RESULTS, b""), (FrameKind.RESULTS, bytes(range(256)) * 40)]
STREAM = b"".join(header(kind, len(body)) + body for kind, body in FRAMES)


def read(*parts: bytes) -> list[tuple[int, bytes]]:
    reader = FrameReader()
    return [(kind, bytes(body)) for part in parts for kind, body in reader.feed(part)]


def test_frames_arrive_when_bytes_come_one_at_a_time() -> None:
    assert read(*(STREAM[at : at + 1] for at in range(len(STREAM)))) == FRAMES


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_frames_arrive_however_the_stream_is_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert read(*(STREAM[a:b] for a, b in itertools.pairwise(edges))) == FRAMES


def test_an_incomplete_frame_is_not_believed() -> None:
    for length in range(len(STREAM) - 1):
        assert read(STREAM[:length]) == FRAMES[: len(read(STREAM[:length]))]
    assert read(STREAM[:-1]) == FRAMES[:2]


@pytest.mark.parametrize(
    "garbage",
    [HEADER.pack(MOST_BYTES + 1, 1), HEADER.pack(2**64 - 1, 2), HEADER.pack(5, 0), HEADER.pack(5, 4), b"\xff" * 100],
)
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(BrokenFrame):
        read(garbage)
    with pytest.raises(BrokenFrame):
        read(STREAM, garbage)


def test_a_length_that_is_only_announced_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        assert read(header(FrameKind.MESSAGE, 1 << 39) + b"only this much came") == []
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_what_arrived_does_not_change_when_more_comes() -> None:
    reader = FrameReader()
    ((_, first),) = reader.feed(header(FrameKind.MESSAGE, 3) + b"abc" + header(FrameKind.MESSAGE, 3))
    reader.feed(b"xyz")
    assert bytes(first) == b"abc"
