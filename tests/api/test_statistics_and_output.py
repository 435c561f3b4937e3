"""What can be seen of a run: statistics at any time and from any thread, events, and what workers print."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import pytest
from faulty_workers import FaultyWorker
from plain_workers import Echo, Sleeper
from recording import run
from scripts import run_script
from talkers import ClosesStreams, Flood, LastWords, Stammerer, Talker, TalkerThatDies

from gpu_dispatch import Dispatcher, ProgressEvent

KEYS = {
    "state", "total", "pending", "completed", "failed", "timeouts", "cancelled", "crashed", "retries", "restarts",
    "setup_failures", "cleanup_failures", "expected_total", "queue_depth", "in_flight", "start_time", "end_time",
    "elapsed_s", "throughput", "throughput_recent", "throughput_history", "eta_s", "gpu_status", "errors", "slowest",
    "output", "log_dir",
}  # fmt: skip
WORKER_KEYS = {
    "worker_id", "gpu_id", "device", "pid", "status", "current_task", "current_age_s", "task_timeout", "completed",
    "failed", "timeouts", "restarts", "busy_s", "busy_share", "last_duration", "median_duration", "setup_s",
    "status_age_s", "batch_size", "log_file", "error",
}  # fmt: skip


def test_a_dispatcher_that_never_ran_has_statistics_too() -> None:
    stats = Dispatcher(Echo, [0]).get_stats()

    assert set(stats) >= KEYS
    assert (stats["state"], stats["total"], stats["start_time"]) == ("new", 0, None)


def test_the_figures_after_a_run() -> None:
    items = [1, 2, ("process", "raise"), ("process", "exit3"), ("process", "sleep"), 6]
    before = time.time()
    record = run(FaultyWorker, items, gpu_ids=[3, 5], task_timeout=0.3)
    stats = record.stats

    assert set(stats) >= KEYS
    assert (stats["total"], stats["completed"], stats["failed"], stats["timeouts"]) == (6, 3, 2, 1)
    assert (stats["crashed"], stats["pending"], stats["queue_depth"], stats["in_flight"]) == (1, 0, 0, 0)
    assert before <= stats["start_time"] <= stats["end_time"] <= time.time()
    assert stats["elapsed_s"] == pytest.approx(stats["end_time"] - stats["start_time"], abs=0.1)
    assert stats["throughput"] == pytest.approx(6 / stats["elapsed_s"])
    assert stats["state"] == "finished"
    assert stats["expected_total"] == 6
    assert set(stats["gpu_status"]) == {3, 5}
    for worker_id, worker in stats["gpu_status"].items():
        assert set(worker) >= WORKER_KEYS
        assert worker["worker_id"] == worker["gpu_id"] == worker_id
        assert worker["status"] == "finished"
        assert worker["pid"] is None
    for figure in ("completed", "failed", "timeouts", "restarts"):
        assert sum(worker[figure] for worker in stats["gpu_status"].values()) == stats[figure]
    causes = {entry["cause"]: entry["count"] for entry in stats["errors"]}
    assert sum(causes.values()) == 3
    assert any("ValueError" in cause for cause in causes)
    assert json.dumps({key: value for key, value in stats.items() if key != "gpu_status"})
    time.sleep(0.05)
    assert record.stats["elapsed_s"] == stats["elapsed_s"]  # the clock stands still after the end


def test_statistics_can_be_read_from_other_threads_all_the_time() -> None:
    dispatcher, stop, seen, errors = Dispatcher(Echo, [0, 1]), threading.Event(), [], []

    def read() -> None:
        try:
            while not stop.is_set():
                stats = dispatcher.get_stats()
                seen.append((stats["state"], stats["completed"], stats["total"]))
                assert stats["completed"] + stats["failed"] + stats["pending"] <= stats["total"] + 4096
        except BaseException as error:
            errors.append(error)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        dispatcher.run(range(6000), lambda *_: None, total_tasks=6000)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(switch)

    assert not errors
    states = [state for state, _, _ in seen]
    assert {"starting", "running"} <= set(states)
    completed = [count for _, count, _ in seen]
    assert completed[-1] == 6000


def test_a_snapshot_is_a_copy_that_its_owner_may_change() -> None:
    dispatcher = Dispatcher(Echo, [0])
    stats = dispatcher.run([1], lambda *_: None)
    stats["gpu_status"].clear()
    stats["errors"].append("mine")
    stats["output"].append("mine")
    assert set(dispatcher.get_stats()["gpu_status"]) == {0}
    assert dispatcher.get_stats()["errors"] == dispatcher.get_stats()["output"] == []


def test_what_a_worker_is_doing_can_be_seen_while_it_does_it() -> None:
    dispatcher, seen = Dispatcher(Sleeper, [7]), []

    def watch() -> None:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            worker = dispatcher.get_stats()["gpu_status"].get(7)
            if worker and worker["status"] == "processing" and worker["current_age_s"] > 0.1:
                seen.append(worker)
                return
            time.sleep(0.01)

    thread = threading.Thread(target=watch)
    thread.start()
    dispatcher.run([0.5], lambda *_: None, task_timeout=3.0)
    thread.join()

    assert seen[0]["current_task"] == 0
    assert seen[0]["pid"] is not None
    assert 0.1 < seen[0]["current_age_s"] < 0.6
    assert seen[0]["task_timeout"] == 3.0
    assert seen[0]["setup_s"] is not None


def test_events_tell_the_whole_life_of_a_task_with_its_times() -> None:
    events: list[ProgressEvent] = []
    items = [0.05, 0.05, 5.0]
    Dispatcher(Sleeper, [0], retries=1).run(items, lambda *_: None, task_timeout=0.2, on_progress=events.append)

    life = [event for event in events if event.task_id == 0]
    assert [event.kind for event in life] == ["queued", "sent", "started", "finished"]
    end = life[-1]
    assert end.outcome == "success"
    assert end.queued_at <= end.sent_at <= end.started_at <= end.finished_at <= end.at
    assert 0.05 <= end.duration_s < 0.2
    assert (end.worker_id, end.attempt) == (0, 1)
    assert end.device is not None
    retried = [event for event in events if event.task_id == 2]
    assert [event.kind for event in retried] == [
        "queued", "sent", "started", "retried", "sent", "started", "finished",
    ]  # fmt: skip
    assert (retried[-1].outcome, retried[-1].attempt) == ("timeout", 2)
    workers = [event.kind for event in events if event.task_id is None]
    assert workers == ["worker_starting", "worker_ready", "worker_finished"]
    assert next(event for event in events if event.kind == "worker_ready").duration_s >= 0
    instants = [event.at for event in events]
    assert instants == sorted(instants)


def test_events_tell_of_deaths_and_failed_setups() -> None:
    events: list[ProgressEvent] = []
    Dispatcher(FaultyWorker, [0, 1]).run(
        [1, ("process", "exit3"), 3],
        lambda *_: None,
        on_progress=events.append,
        setup_fault="raise",
        only_gpu=1,
    )

    kinds = [event.kind for event in events]
    assert "worker_died" in kinds
    assert "worker_setup_failed" in kinds
    assert "worker_retired" in kinds
    died = [event for event in events if event.kind == "worker_died" and "code 3" in (event.detail or "")]
    assert len(died) == 1


# --- what workers print --------------------------------------------------------------------------------------


def test_what_workers_print_reaches_the_parents_own_streams_in_whole_lines(capsys) -> None:
    run(Talker, [f"żółć {n}" for n in range(40)])

    out, err = capsys.readouterr()
    assert sorted(line for line in out.splitlines() if line.startswith("out")) == sorted(
        f"out żółć {n}" for n in range(40)
    )
    assert sorted(err.splitlines()) == sorted(f"err żółć {n}" for n in range(40))
    assert out.count("setup of ") == 2
    assert out.count("cleanup without a newline") == 2


def test_output_can_be_suppressed_and_is_still_there_to_look_at(capsys) -> None:
    record = run(Talker, ["x"], gpu_ids=[0], suppress_worker_output=True)

    assert capsys.readouterr() == ("", "")
    assert (0, "out x") in record.stats["output"]
    assert (0, "err x") in record.stats["output"]


def test_every_worker_has_a_log_of_its_own(tmp_path: Path) -> None:
    record = run(TalkerThatDies, ["a", "b"], gpu_ids=[2, 3], suppress_worker_output=True, log_dir=tmp_path / "logs")
    record.check(2)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["worker-2.log", "worker-3.log"]


def test_a_worker_has_one_log_across_restarts(tmp_path: Path, capsys) -> None:
    logs = tmp_path / "new" / "logs"
    record = run(TalkerThatDies, [f"{n}" for n in range(10)], gpu_ids=[2], suppress_worker_output=True, log_dir=logs)

    record.check(10)
    assert sorted(path.name for path in logs.iterdir()) == ["worker-2.log"]
    text = "".join(path.read_text() for path in logs.iterdir())
    assert sorted(line for line in text.splitlines() if line.startswith("out ")) == sorted(
        f"out {n}" for n in range(10)
    )
    assert record.stats["log_dir"] == str(logs)
    assert {worker["log_file"] for worker in record.stats["gpu_status"].values()} == {str(logs / "worker-2.log")}
    assert record.stats["restarts"] >= 1
    assert capsys.readouterr() == ("", "")


def test_the_last_words_of_a_worker_are_in_the_report_of_its_death() -> None:
    record = run(LastWords, [1], gpu_ids=[0], suppress_worker_output=True)

    assert "cudaErrorSomething: the card is on fire" in record.errors[0]
    assert "SIGKILL" in record.errors[0]


def test_a_worker_that_floods_its_output_loses_none_of_it_in_the_log(tmp_path: Path) -> None:
    record = run(Flood, range(4), log_dir=tmp_path, suppress_worker_output=True)

    record.check(4)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 4 * 2_000_000
    assert len(record.stats["output"]) <= 100


def test_a_worker_whose_streams_are_closed_goes_on_working() -> None:
    record = run(ClosesStreams, range(20), gpu_ids=[0])

    record.check(20)
    assert len(record.successes) == 20


def test_output_that_the_terminal_cannot_show_is_shown_as_well_as_it_can(tmp_path: Path) -> None:
    script = """
    from gpu_dispatch import Dispatcher
    from plain_workers import Echo

    class Polish(Echo):
        def process(self, item):
            print("żółw")

    if __name__ == "__main__":
        Dispatcher(Polish, [0]).run([1], lambda *_: None)
    """
    done = run_script(tmp_path, script, env={"PYTHONIOENCODING": "ascii"})

    assert done.returncode == 0
    assert done.stdout == "\\u017c\\xf3\\u0142w\n"


def test_the_parents_closed_stdout_does_not_stop_the_run(tmp_path: Path) -> None:
    script = """
    import os, sys
    from gpu_dispatch import Dispatcher
    from test_support_talker import Talker

    if __name__ == "__main__":
        os.close(1)
        stats = Dispatcher(Talker, [0]).run(["a"] * 50, lambda *_: None)
        sys.stderr.write(f"completed {stats['completed']}")
    """
    (tmp_path / "test_support_talker.py").write_text(
        "from gpu_dispatch import BaseWorker\n"
        "class Talker(BaseWorker):\n"
        "    def setup(self, gpu_id, seed): pass\n"
        "    def process(self, item): print(item * 1000)\n"
    )
    done = run_script(tmp_path, script)

    assert "completed 50" in done.stderr


def test_lines_that_are_written_in_pieces_do_not_mix_in_the_log(tmp_path: Path) -> None:
    """As by an unbuffered interpreter: the text, and later its end."""
    run(Stammerer, range(20), gpu_ids=[0], suppress_worker_output=True, log_dir=tmp_path)

    lines = (tmp_path / "worker-0.log").read_text().splitlines()
    assert sorted(lines) == sorted(f"{stream} {n}" for stream in ("out", "err") for n in range(20))
