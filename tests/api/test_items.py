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
from gpu_dispatch.engine.items import Items, as_run


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
    assert not items._blocks
    assert not items._unsettled


def test_a_task_that_was_settled_before_is_a_bug_and_not_overlooked() -> None:
    items = Items()
    items.add(["a", "b", "c"])
    items.drop([1])
    for again in ([1], [1, 2], [2, 1]):
        with pytest.raises(KeyError):
            items.drop(again)


@given(st.lists(st.integers(0, 40)))
def test_only_consecutive_ids_are_a_run(ids: list[int]) -> None:
    run = as_run(ids)
    assert (run is not None) == (bool(ids) and ids == list(range(ids[0], ids[0] + len(ids))))
    assert run is None or list(run) == ids


def test_a_range_is_a_run() -> None:
    assert as_run(range(3, 5)) == range(3, 5)
    assert as_run((3, 4, 5)) == range(3, 6)
    assert as_run([5, 7, 6, 8]) is None
