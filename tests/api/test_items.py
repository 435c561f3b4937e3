"""Where items lie until their tasks are settled: a dict says what is right."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dispatch.engine import items as module
from gpu_dispatch.engine.items import BLOCK, Items, runs_of


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 4)


@given(st.lists(st.integers(1, 13), max_size=6), st.randoms(use_true_random=False))
def test_it_does_what_a_dict_would(sizes: list[int], dice: random.Random) -> None:
    items, right = Items(), dict[int, str]()
    for size in sizes:
        new = [f"item {dice.random()}" for _ in range(size)]
        ids = items.add(new)
        assert ids == range(len(ids) and ids.start, ids.start + size)
        right.update(zip(ids, new, strict=True))
        assert items.get(ids) == new
        for _ in range(2):
            some: Sequence[int] = dice.sample(sorted(right), dice.randint(0, len(right)))
            some = dice.choice([some, sorted(some), tuple(sorted(some))])
            assert items.get(some) == [right[task] for task in some]
            items.drop(some)
            for task in some:
                del right[task]
        assert {task for task in range(-2, ids.stop + 2) if task in items} == set(right)


def test_a_settled_item_is_let_go_at_once_and_its_block_with_the_last() -> None:
    class Thing:
        pass

    items, things = Items(), [Thing() for _ in range(8)]
    alive = [weakref.ref(thing) for thing in things]
    items.add(things)
    del things
    items.drop([1, 2, 3, 4, 5, 6, 7])
    gc.collect()
    assert [ref() is not None for ref in alive] == [True] + [False] * 7
    assert len(items._blocks) == 1  # that of the task that is not settled
    items.drop((0,))
    assert not items._blocks and not items._unsettled


@given(st.lists(st.integers(0, 40)))
def test_runs_say_the_same_as_the_ids(ids: list[int]) -> None:
    runs = list(runs_of(ids))
    assert [task for run in runs for task in run] == ids
    assert all(runs)


def test_what_is_consecutive_is_one_run() -> None:
    assert list(runs_of(list(range(5, 5 + 3 * BLOCK)))) == [range(5, 5 + 3 * BLOCK)]
    assert list(runs_of([1, 2, 7, 8, 9, 10])) == [range(1, 3), range(7, 11)]
    assert list(runs_of(range(3))) == [range(3)]
    assert list(runs_of([])) == []
