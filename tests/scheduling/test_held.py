"""What a slot holds: a dict says what is right, whatever comes in which order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dispatch.scheduling.held import Held

FRAMES = st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=5)
ANSWERS = st.lists(st.lists(st.integers(-2, 30), max_size=8), max_size=8)


def frames_of(shapes: Sequence[tuple[int, bool]]) -> list[Sequence[int]]:
    frames: list[Sequence[int]] = []
    first = 0
    for size, is_range in shapes:
        frame = range(first, first + size)
        frames.append(frame if is_range else tuple(reversed(frame)))
        first += size
    return frames


@given(FRAMES, ANSWERS, st.data())
def test_it_does_what_a_dict_would(
    shapes: list[tuple[int, bool]], answers: list[list[int]], data: st.DataObject
) -> None:
    held, right = Held(), dict[int, None]()
    for frame in frames_of(shapes):
        held.add(frame)
        right.update(dict.fromkeys(frame))
    for wild in answers:
        in_order = list(right)[: data.draw(st.integers(0, 8))]
        answer = data.draw(st.sampled_from([wild, in_order, tuple(in_order), in_order[::-1]]))
        expected = [task for task in answer if right.pop(task, 0) is None]
        assert list(held.remove(answer)) == expected
        assert list(held) == list(right)
        assert len(held) == held.count == len(right)
        assert all(task in held for task in right)
        assert 99 not in held


@pytest.mark.parametrize("kind", [list, tuple, range])
def test_an_answer_may_cover_several_frames_and_a_part_of_one(kind: type) -> None:
    held = Held()
    for frame in (range(3), range(3, 5), range(5, 9)):
        held.add(frame)
    answer = range(7) if kind is range else kind(range(7))
    assert list(held.remove(answer)) == list(range(7))
    assert list(held) == [7, 8]


def test_an_answer_out_of_one_range_is_told_as_a_range() -> None:
    held = Held()
    held.add(range(9))
    assert held.remove([0, 1, 2]) == range(3)
    assert held.remove((3, 4)) == range(3, 5)


def test_nothing_is_left_when_it_is_cleared() -> None:
    held = Held()
    held.add(range(3))
    held.clear()
    assert not held
    assert list(held.remove([0])) == []
