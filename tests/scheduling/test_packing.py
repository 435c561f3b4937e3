"""How many workers fit on one GPU, without a GPU and without waiting."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu_dispatch.scheduling.packing import Packing, Reading, Step

GIB = 2**30


class SimulatedGPU:
    """Memory per worker, and a throughput that depends on how many there are."""

    def __init__(self, total: int, each: int, rate: Callable[[int], float], *, pids_are_known: bool = True) -> None:
        self.total, self.each, self.rate = total, each, rate
        self.pids_are_known = pids_are_known
        self.workers, self.at, self.settled = 1, 0.0, 0.0
        self.packing = Packing()
        self.history = [1]

    def pass_time(self, seconds: float) -> None:
        end = self.at + seconds
        while self.at < end:
            self.at += 0.5
            self.settled += 0.5 * self.rate(self.workers)
            step = self.packing.look(self.reading())
            self.workers += {Step.ADD: 1, Step.REMOVE: -1, Step.STAY: 0}[step]
            if step is not Step.STAY:
                self.history.append(self.workers)

    def reading(self) -> Reading:
        held = self.workers * self.each
        told = held if self.pids_are_known else None
        return Reading(self.at, self.workers, True, int(self.settled), held + GIB, self.total, told)


def test_settles_on_the_number_that_memory_allows() -> None:
    gpu = SimulatedGPU(total=25 * GIB, each=5 * GIB, rate=lambda n: 100.0 * n)
    gpu.pass_time(120)
    assert gpu.workers == 4  # four hold 20 of 25 GiB, one is somebody else's: no room for a fifth with headroom
    assert gpu.history == [1, 2, 3, 4]


def test_never_adds_a_worker_that_memory_does_not_allow() -> None:
    gpu = SimulatedGPU(total=10 * GIB, each=8 * GIB, rate=lambda n: 100.0 * n)
    gpu.pass_time(120)
    assert gpu.history == [1]


def test_takes_the_last_worker_away_when_it_did_not_help() -> None:
    gpu = SimulatedGPU(total=80 * GIB, each=2 * GIB, rate=lambda n: 100.0 * min(n, 3))
    gpu.pass_time(120)
    assert gpu.history == [1, 2, 3, 4, 3]


def test_steps_back_when_throughput_falls_later() -> None:
    gpu = SimulatedGPU(total=16 * GIB, each=5 * GIB, rate=lambda n: 100.0 * n)
    gpu.pass_time(60)
    assert gpu.workers == 2
    gpu.rate = lambda n: 60.0 if n > 1 else 90.0
    gpu.pass_time(60)
    assert gpu.workers == 1


def test_noise_does_not_make_it_step_back() -> None:
    gpu = SimulatedGPU(total=16 * GIB, each=5 * GIB, rate=lambda n: 100.0 * n)
    gpu.pass_time(60)
    gpu.rate = lambda n: 85.0 * n
    gpu.pass_time(120)
    assert gpu.workers == 2


def test_memory_is_reckoned_from_the_device_when_processes_are_not_told() -> None:
    gpu = SimulatedGPU(total=25 * GIB, each=5 * GIB, rate=lambda n: 100.0 * n, pids_are_known=False)
    gpu.packing.look(Reading(0.0, 1, False, 0, GIB, gpu.total))  # before the first worker holds anything
    gpu.pass_time(120)
    assert gpu.workers == 4


@pytest.mark.parametrize("ready", [False])
def test_does_not_judge_while_a_worker_is_loading(ready: bool) -> None:
    packing = Packing()
    steps = {packing.look(Reading(t, 1, ready, 0, GIB, 80 * GIB, GIB)) for t in range(100)}
    assert steps == {Step.STAY}


def test_stays_with_one_where_no_driver_tells_of_memory() -> None:
    packing = Packing()
    assert {packing.look(Reading(float(t), 1, True, t * 100)) for t in range(100)} == {Step.STAY}
