from __future__ import annotations

import queue

import pytest

from gpu_dispatch.multigpu import LoadBalancer
from gpu_dispatch.multigpu.summary import duration, summary_lines
from gpu_dispatch.transcription import FileResult


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def two_gpus_in_ten_seconds(clock) -> LoadBalancer:
    """GPU 0 was busy for 9 of them, GPU 1 for 6; together they heard 60 s of audio, and one file failed."""
    balancer = LoadBalancer(gpu_ids=[0, 1], clock=clock)
    balancer.start()
    for gpu_id, audio_s, busy_s in ((0, 20.0, 5.0), (1, 24.0, 6.0), (0, 16.0, 4.0)):
        balancer.add(FileResult("x.wav", gpu_id, audio_s=audio_s, processing_s=busy_s, language="en"))
    clock.now += 10.0
    balancer.add(FileResult("bad.wav", 1, "the file is empty (0 bytes)"))
    return balancer


def test_at_the_beginning_everything_is_zero():
    balancer = LoadBalancer(gpu_ids=[0])

    assert balancer.get_overall_rtf() == 0.0
    assert balancer.get_speedup() == 0.0
    assert balancer.get_per_gpu_stats()[0]["files"] == 0
    assert balancer.get_exit_code() == 0


def test_rtf_and_speedup_are_measured_on_the_wall(clock):
    balancer = two_gpus_in_ten_seconds(clock)

    assert balancer.get_overall_rtf() == pytest.approx(10 / 60)
    assert balancer.get_speedup() == pytest.approx(1.5)
    stats = balancer.get_per_gpu_stats()
    assert (stats[0]["files"], stats[0]["failed"], stats[0]["busy_share"]) == (2, 0, pytest.approx(0.9))
    assert (stats[1]["files"], stats[1]["failed"], stats[1]["rtf"]) == (1, 1, pytest.approx(0.25))


def test_a_failed_file_is_in_the_summary_with_its_reason_and_in_the_exit_code(clock):
    balancer = two_gpus_in_ten_seconds(clock)

    summary = balancer.get_summary_stats()

    assert (summary["completed"], summary["failed"], summary["cancelled"]) == (3, 1, 0)
    assert summary["failures"] == [{"file": "bad.wav", "error": "the file is empty (0 bytes)"}]
    assert summary["languages"] == {"en": 3}
    assert summary["audio_hours"] == pytest.approx(1 / 60)
    assert balancer.get_exit_code() == 1


def test_files_that_were_not_tried_are_no_failures_but_no_success_either(clock):
    balancer = LoadBalancer([0], clock=clock)
    balancer.add(FileResult("a.wav", None, "the run was ended", cancelled=True))

    assert balancer.get_summary_stats()["failed"] == 0
    assert balancer.get_summary_stats()["cancelled"] == 1
    assert balancer.get_exit_code() == 1


def test_monitoring_ends_with_the_last_result_and_tells_of_each():
    results: queue.Queue[FileResult] = queue.Queue()
    for name in "abc":
        results.put(FileResult(f"{name}.wav", 0))
    told = []

    balancer = LoadBalancer([0])
    balancer.monitor_progress(results, 2, lambda *event: told.append(event))

    assert [(done, total, result.file) for done, total, result in told] == [(1, 2, "a.wav"), (2, 2, "b.wav")]
    assert results.qsize() == 1
    balancer.count_rest(results)
    assert balancer.get_summary_stats()["completed"] == 3


def test_progress_is_a_line_per_file_and_foreign_names_cannot_move_the_cursor(capsys):
    balancer = LoadBalancer([0])
    balancer.print_progress(1, 9, FileResult("\x1b[2Jevil\n.wav", 0, audio_s=75.0, processing_s=1.5))
    balancer.print_progress(2, 9, FileResult("b.wav", 0, "damaged:\nvery"))
    balancer.print_progress(3, 9, FileResult("c.wav", None, "the run was ended", cancelled=True))

    assert capsys.readouterr().err.splitlines() == [
        "[1/9] evil .wav: 1:15 min of audio in 1.5 s on GPU 0",
        "[2/9] b.wav: FAILED: damaged: very",
    ]


def test_the_summary_is_for_people(clock, capsys):
    balancer = two_gpus_in_ten_seconds(clock)
    balancer.skipped = 2
    balancer.print_summary(4)

    assert capsys.readouterr().out.splitlines() == [
        "3 of 4 files transcribed, 1 failed, 2 already done",
        "audio 1:00 min in 10.0 s: RTF 0.167 (6.0 × real time), speed-up against one GPU 1.50 ×",
        "  device  files  failed   audio  busy    RTF",
        "  GPU 0       2       0  36.0 s   90%  0.250",
        "  GPU 1       1       1  24.0 s   60%  0.250",
        "failed: bad.wav: the file is empty (0 bytes)",
    ]


def test_a_thousand_failures_do_not_hide_the_figures(clock):
    balancer = LoadBalancer([0], clock=clock)
    for number in range(1000):
        balancer.add(FileResult(f"{number}.wav", 0, "empty"))

    lines = list(summary_lines(balancer.get_summary_stats(), 1000))

    assert len(lines) == 22
    assert lines[-1] == "… and 980 more failures"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (61, "1:01 min"), (3661, "1:01:01 h")]
)
def test_durations_are_readable(seconds, text):
    assert duration(seconds) == text
