"""The size of batches, on simulated devices: a device is a function of the number of items."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dispatch.runtime.batch_size import CLOSE_ENOUGH, LARGEST, AutoBatchSize, FixedBatchSize

Size = AutoBatchSize | FixedBatchSize


class Device:
    """Takes ``fixed_s`` and ``each_s`` per item, and has memory for ``memory`` items."""

    def __init__(self, fixed_s: float = 0.005, each_s: float = 0.00025, memory: float = float("inf")) -> None:
        self.fixed_s, self.each_s, self.memory = fixed_s, each_s, memory
        self.tried: list[int] = []
        self.failed: list[int] = []

    def seconds(self, count: int) -> float:
        return self.fixed_s + self.each_s * count

    def run(self, size: Size, batches: int, item_size: Callable[[], float] = lambda: 1.0) -> None:
        """So many full batches; one that does not fit is halved, as the runner does it, and reported once."""
        for _ in range(batches):
            items = [item_size() for _ in range(size.size)]
            self.tried.append(len(items))
            if not self._call(size, items):
                self.failed.append(len(items))
                waiting = [items]
                while waiting:
                    part = waiting.pop()
                    if len(part) > 1 and not self._call(size, part):
                        middle = (len(part) + 1) // 2
                        waiting += (part[middle:], part[:middle])
                size.ran_out(len(items))

    def _call(self, size: Size, items: list[float]) -> bool:
        if sum(items) > self.memory:
            return False
        size.ran(len(items), self.seconds(len(items)))
        return True


def test_the_size_grows_while_throughput_rises_and_stops_where_it_does_not() -> None:
    device = Device(fixed_s=0.005, each_s=0.001)  # doubling gains: 1.7, 1.5, 1.4, 1.25, 1.15 (16→32), 1.07
    size = AutoBatchSize()
    device.run(size, 100)
    assert size.settled
    assert size.size in (32, 64)
    assert sorted(set(device.tried)) == [1, 2, 4, 8, 16, 32, 64]


def test_a_device_that_gains_nothing_from_batches_stays_at_one() -> None:
    size = AutoBatchSize()
    Device(fixed_s=0.0, each_s=0.01).run(size, 50)
    assert (size.size, size.settled) == (1, True)


def test_the_size_has_an_end_even_when_throughput_has_none() -> None:
    size = AutoBatchSize()
    Device(fixed_s=1.0, each_s=0.0).run(size, 200)
    assert (size.size, size.settled) == (LARGEST, True)


def test_one_hiccup_of_the_machine_does_not_stop_the_growth_for_ever() -> None:
    size = AutoBatchSize()
    device = Device()
    for number in range(200):
        slow = 10 if 8 <= number < 12 else 1  # exactly the four batches at size 4
        size.ran(size.size, device.seconds(size.size) * slow)
    assert size.size >= 64


def test_a_slow_first_call_at_each_size_is_not_held_against_it() -> None:
    """Compilers and autotuners take their time at every new shape."""
    size, seen, device = AutoBatchSize(), set(), Device()
    for _ in range(200):
        first = size.size not in seen
        seen.add(size.size)
        size.ran(size.size, device.seconds(size.size) + (5.0 if first else 0.0))
    assert size.size >= 64


def test_batches_that_are_not_full_say_nothing_about_the_size() -> None:
    size = AutoBatchSize(8)
    for _ in range(100):
        size.ran(3, 0.001)
    assert (size.size, size.settled) == (8, False)


@pytest.mark.parametrize("memory", [1, 2, 3, 5, 17, 48, 63, 64, 65, 100, 500])
def test_the_ceiling_is_found_by_bisection_and_a_size_that_failed_is_never_tried_again(memory: int) -> None:
    device = Device(memory=memory)
    size = AutoBatchSize()
    device.run(size, 400)
    assert len(device.failed) == len(set(device.failed)), "the same size failed twice"
    assert len(device.failed) <= 5
    assert all(count < min(device.failed[: number + 1]) for number, count in _later_tries(device))
    assert size.size <= memory
    if memory <= 200:  # beyond it, a larger batch gains less than a tenth
        assert size.size >= memory * (1 - 2 * CLOSE_ENOUGH) - 1


def _later_tries(device: Device) -> list[tuple[int, int]]:
    """(number of failures before, size) of every try after the first failure."""
    failures, later = 0, []
    for count in device.tried:
        if failures:
            later.append((failures - 1, count))
        if failures < len(device.failed) and count == device.failed[failures]:
            failures += 1
    return later


def test_a_ceiling_known_from_an_earlier_worker_is_respected_from_the_start() -> None:
    device = Device(memory=48)
    first = AutoBatchSize()
    device.run(first, 200)
    second, again = AutoBatchSize(*first.learnt), Device(memory=48)
    again.run(second, 200)
    assert not again.failed
    assert second.size == first.size


def test_a_size_that_was_only_about_to_be_tried_is_not_handed_to_the_next_worker() -> None:
    """It may be the one that kills the process."""
    size = AutoBatchSize()
    for _ in range(4):
        size.ran(1, 0.005)
    assert size.size == 2
    assert size.learnt == (1, None)


@pytest.mark.parametrize("make", [AutoBatchSize, lambda: FixedBatchSize(48)])
def test_larger_items_shrink_the_batches_for_a_while_and_no_longer(make: Callable[[], Size]) -> None:
    size, device = make(), Device(memory=48)
    device.run(size, 200)
    usual = size.size
    assert usual >= 40
    device.run(size, 60, item_size=lambda: 3.0)
    assert size.size <= usual // 2
    device.failed.clear()
    device.run(size, 600)
    assert size.size == usual
    assert not device.failed


def test_items_that_stay_large_cost_an_oom_ever_more_rarely() -> None:
    size, device = AutoBatchSize(), Device(memory=48)
    device.run(size, 200)
    device.failed.clear()
    device.run(size, 10_000, item_size=lambda: 1.5)
    assert len(device.failed) < 40
    assert sum(device.tried[-5000:]) / 5000 > 16  # 32 would fit


def test_one_odd_item_now_and_then_does_not_cost_the_batches_around_it() -> None:
    size, device = AutoBatchSize(), Device(memory=48)
    device.run(size, 200)
    usual = size.size
    device.tried.clear()
    for _ in range(50):
        sizes = iter([40.0])
        device.run(size, 1, item_size=lambda sizes=sizes: next(sizes, 1.0))  # type: ignore[misc]
        device.run(size, 40)
    assert sum(device.tried) / len(device.tried) > 0.95 * usual


@pytest.mark.parametrize("make", [AutoBatchSize, lambda: FixedBatchSize(64)])
def test_hours_of_success_with_rare_failures_never_grind_the_size_down(make: Callable[[], Size]) -> None:
    """As a well-known auto-batcher does, which only ever shrinks."""
    chance = random.Random(7)
    size, device = make(), Device(memory=48)
    device.run(size, 200)
    usual = size.size
    device.tried.clear()
    device.run(size, 20_000, item_size=lambda: 1.0 if chance.random() > 0.0002 else 30.0)
    assert sum(device.tried) / len(device.tried) > 0.8 * usual
    assert min(device.tried) > 1


@given(
    st.lists(st.one_of(st.none(), st.floats(1e-6, 10.0)), max_size=300),
    st.sampled_from(["auto", "fixed"]),
    st.integers(1, 100),
)
def test_whatever_happens_the_size_stays_a_size(events: list[float | None], kind: str, start: int) -> None:
    size: Size = AutoBatchSize(start) if kind == "auto" else FixedBatchSize(start)
    for seconds in events:
        count = size.size
        assert 1 <= count <= (LARGEST if kind == "auto" else start)
        if seconds is None:
            size.ran_out(count)
        else:
            size.ran(count, seconds)
    learnt, ceiling = size.learnt
    assert learnt >= 1
    assert ceiling is None or learnt < ceiling or learnt == 1


def test_a_fixed_size_is_what_was_asked_for_as_long_as_it_fits() -> None:
    size, device = FixedBatchSize(64), Device()
    device.run(size, 100)
    assert set(device.tried) == {64}


def test_a_fixed_size_that_does_not_fit_is_approached_from_below() -> None:
    size, device = FixedBatchSize(64), Device(memory=48)
    device.run(size, 500)
    assert len(device.failed) <= 3
    assert 43 <= size.size <= 48


def test_a_call_is_not_made_longer_than_its_time_limit_allows() -> None:
    size, device = AutoBatchSize(longest_s=0.5), Device(fixed_s=0.1, each_s=0.01)
    device.run(size, 200)
    assert size.settled
    assert device.seconds(size.size) <= 0.5
    assert size.size >= 16
