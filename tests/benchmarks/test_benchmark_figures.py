"""The arithmetic of the benchmarks: a wrong median or a bar that always passes would mislead everybody. Never timed."""

from __future__ import annotations

import json
import pickle
import xml.etree.ElementTree as ET

import pytest

from benchmarks import bars, loads, publish, rounds, table
from benchmarks.job import Job
from benchmarks.overtaken import longest_overtaken_s
from benchmarks.plot import decades, svg
from benchmarks.samples import Median, Sample, failures, medians
from benchmarks.systems import BY_NAME as SYSTEM


def measured(load: str = "empty", **values: float) -> dict[str, dict[str, Median]]:
    return {load: {name: Median(value, value * 0.9, value * 1.1, 5) for name, value in values.items()}}


# --- samples -----------------------------------------------------------------------------------------------


def test_one_slow_round_does_not_move_the_median() -> None:
    samples = [Sample("empty", "pool", i, value=v) for i, v in enumerate([10.0, 11.0, 1.0, 12.0, 11.0])]

    assert medians(samples) == {"empty": {"pool": Median(11.0, 1.0, 12.0, 5)}}


def test_a_failed_measurement_is_not_a_zero() -> None:
    samples = [Sample("empty", "pool", 0, value=10.0), Sample("empty", "pool", 1, error="hung")]

    assert medians(samples)["empty"]["pool"].value == 10.0
    assert failures(samples) == {("empty", "pool"): "hung"}


def test_a_child_that_ends_without_a_figure_says_why() -> None:
    sample = rounds.read_sample("", "Traceback …\nValueError: boom", "empty", "pool", 3)

    assert sample == Sample("empty", "pool", 3, error="ValueError: boom")


def test_noise_on_standard_output_before_the_figure_is_ignored() -> None:
    wanted = Sample("empty", "pool", 3, 10, 0.5, 20.0)
    line = json.dumps(wanted.as_dict())

    assert rounds.read_sample(f"a library's greeting\n{line}\n", "", "empty", "pool", 3) == wanted


# --- counts and order --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("elapsed_s", "expected"),
    [(1.0, 60), (0.6, 100), (0.1, 600), (0.0001, 2_000), (0.0, 2_000)],
)
def test_the_next_count_aims_at_the_wanted_time_without_overshooting(elapsed_s: float, expected: int) -> None:
    assert rounds.next_count(100, elapsed_s, 0.6, 10_000) == expected


def test_the_next_count_respects_the_memory_of_the_machine() -> None:
    assert rounds.next_count(100, 0.01, 0.6, most=300) == 300


def test_every_system_is_first_in_some_round() -> None:
    names = ["a", "b", "c"]

    assert {rounds.rotated(names, i)[0] for i in range(3)} == set(names)
    assert all(sorted(rounds.rotated(names, i)) == names for i in range(7))


# --- bars --------------------------------------------------------------------------------------------------


def test_every_bar_and_load_names_something_that_exists() -> None:
    for bar in bars.BARS:
        load = loads.BY_NAME[bar.load]
        assert bars.OURS in load.systems
        assert bar.against in (None, bars.BEST_PEER, *load.systems)
        assert bar.other_load in (None, *loads.BY_NAME)
    for load in loads.LOADS:
        assert set(load.systems) <= set(SYSTEM)


def test_more_is_better_for_rates_and_less_for_everything_else() -> None:
    faster = measured(gpu_dispatch=100.0, limit=99.0, load="sleep_10ms")
    later = measured(gpu_dispatch=100.0, limit=49.0, load="first_result")

    assert [v.kept for v in bars.verdicts(faster)] == [True]
    assert [(v.kept, round(v.ratio or 0, 2)) for v in bars.verdicts(later)] == [(False, 2.04)]


def test_a_hand_tuned_system_or_the_limit_is_never_the_best_peer() -> None:
    found = measured(gpu_dispatch=900.0, pool_64=5_000.0, limit=9_000.0, shared_queue=800.0, mpire=200.0, joblib=300.0)

    assert bars.best_peer("empty", found) == "joblib"
    by_rival = {v.rival: v for v in bars.verdicts(found)}
    assert by_rival["joblib"].ratio == 3.0
    assert by_rival["joblib"].kept is True


def test_what_was_not_measured_is_neither_kept_nor_missed() -> None:
    assert [v.kept for v in bars.verdicts(measured(pool=10.0))] == [None, None, None]


def test_the_large_scheduler_is_compared_with_the_small_one() -> None:
    found = measured("scheduler_8", gpu_dispatch=2.0) | measured("scheduler_1024", gpu_dispatch=5.0)

    assert [(v.bar.load, v.kept) for v in bars.verdicts(found)] == [("scheduler_8", True), ("scheduler_1024", False)]


# --- overtaken ---------------------------------------------------------------------------------------------

A, B = 1, 2  # two processes


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        pytest.param([(0, 0.0, 0.1, A), (1, 0.0, 0.1, B), (2, 0.1, 0.2, A)], 0.0, id="in order"),
        pytest.param([(0, 0.0, 1.0, A), (1, 1.0, 1.1, A), (2, 0.0, 0.1, B)], 1.0, id="held while a younger one runs"),
        pytest.param([(0, 0.0, 1.0, A), (2, 1.0, 1.1, A), (1, 0.0, 0.3, B)], 0.7, id="held while another idles"),
        pytest.param([(0, 0.0, 1.0, A), (1, 0.0, 1.0, B), (2, 1.0, 1.1, A)], 0.0, id="everybody is busy"),
        pytest.param([(0, 5.0, 6.0, A), (1, 0.0, 0.1, B)], 0.0, id="a straggler may wait"),
        pytest.param(
            [(0, 0.0, 1.0, A), (1, 1.1, 1.2, B), (2, 0.0, 0.1, B), (3, 0.1, 1.1, B)], 0.2, id="overtaken, then a jam"
        ),
    ],
)
def test_how_long_a_fast_task_was_overtaken(spans: list[tuple[int, float, float, int]], expected: float) -> None:
    assert longest_overtaken_s(spans, fast_s=0.5) == pytest.approx(expected)


# --- loads -------------------------------------------------------------------------------------------------


def test_records_weigh_about_300_bytes() -> None:
    assert 250 <= len(pickle.dumps(loads.record(123_456), 5)) <= 350


def test_durations_are_the_same_for_every_system_of_a_round() -> None:
    assert loads.lognormal_durations(400, 3) == loads.lognormal_durations(400, 3)
    assert loads.lognormal_durations(400, 3) != loads.lognormal_durations(400, 4)
    assert loads.straggling_durations(2_000, 1).count(1.0) == 8


def test_the_ideal_is_bounded_by_the_longest_task() -> None:
    assert loads.ideal_makespan_s([1.0, 1.0, 1.0, 1.0], 4) == 1.0
    assert loads.ideal_makespan_s([9.0, 1.0, 1.0, 1.0], 4) == 9.0


def test_the_clock_stops_with_the_last_result_and_needs_all_of_them() -> None:
    job = Job(abs, lambda: [1, 2], count=2, workers=1)
    job.workers_ready()
    job.take(1)
    with pytest.raises(RuntimeError, match="after 1 of 2 results"):
        _ = job.elapsed_s
    job.take(2)
    assert job.elapsed_s > 0


# --- what is written ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [(1_234_567.0, "1,230,000"), (99.96, "100"), (0.012345, "0.0123"), (0.0, "0"), (7.0, "7"), (140.0, "140")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert table.short(value) == text


def test_the_table_shows_ratios_failures_and_missed_bars() -> None:
    found = measured(gpu_dispatch=300.0, pool=100.0, shared_queue=100.0)

    text = table.markdown(found, {("empty", "mpire"): "hung"}, {"cores": "2"}, rounds=5)

    assert "| empty tasks, int → int | ≥ 25 × shared_queue | 3 | **missed** |" in text
    assert "| empty tasks, int → int | ≥ 3 × the best peer | 3 (pool) | kept |" in text
    assert "| 300 | 100 (3) | 100 (3) | failed |" in text
    assert "- cores: 2" in text


def test_the_plot_is_well_formed_and_shows_every_system() -> None:
    found = measured(gpu_dispatch=300_000.0, pool=30_000.0, limit=9_000_000.0)

    root = ET.fromstring(svg(found))

    names = {"".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"gpu_dispatch", "pool", "limit"} <= names
    width = float(root.get("width", "0"))
    for bar in root.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(bar.get("x", "0")) + float(bar.get("width", "0")) <= width


@pytest.mark.parametrize(
    ("values", "expected"), [([1.0], (0, 1)), ([3.0, 250.0], (0, 3)), ([0.02], (-2, -1)), ([0.0, 5.0], (0, 1))]
)
def test_the_axis_holds_all_values(values: list[float], expected: tuple[int, int]) -> None:
    assert decades(values) == expected


def test_figures_replace_the_old_ones_and_leave_the_rest_of_the_page() -> None:
    page = f"# Performance\n\nwords\n\n{publish.START}\n\nold\n\n{publish.END}\n\nmore words\n"

    again = publish.between_markers(publish.between_markers(page, "new"), "newer")

    assert again == page.replace("old", "newer")


def test_a_page_without_a_place_for_figures_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for figures"):
        publish.between_markers("# Performance\n", "new")
