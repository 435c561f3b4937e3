"""The launcher with real worker processes and an engine that needs no model."""

from __future__ import annotations

import json
import queue
import threading
from pathlib import Path

import pytest
from parrot_engine import ParrotEngine

from gpu_dispatch.multigpu import LauncherOrchestrator, LoadBalancer, ProcessSpawner, ResourceAllocator
from gpu_dispatch.multigpu.workload import files_per_batch, longest_first
from gpu_dispatch.transcription import AudioFile, TranscriptionSettings

PARROT = {"engine": ParrotEngine, "settings": TranscriptionSettings(vad=False)}


def launch(folder: Path, out: Path, gpus="cpu:1", model="parrot", **options):
    given = {**PARROT, "pattern": None, "show_progress": False, **options}
    return LauncherOrchestrator().launch(folder, out, gpus, model, **given)


def outputs(out: Path) -> list[str]:
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())


# --- what goes first --------------------------------------------------------------------------------------------


def test_the_longest_goes_first_and_the_unreadable_by_its_size(folder):
    root = folder("short.mp3", 1.0, "long.wav", 9.0, "middle.flac", 3.0)
    (root / "broken.wav").write_bytes(b"x" * 16_000 * 5)

    ordered = longest_first(AudioFile(str(p), p.name, p.stem) for p in root.iterdir())

    assert [file.name for file in ordered] == ["long.wav", "broken.wav", "middle.flac", "short.mp3"]


@pytest.mark.parametrize(
    ("seconds", "count", "workers", "expected"),
    [
        (2.0, 200, 1, 16),  # clips fill the model
        (2.0, 200, 8, 13),  # but every worker gets some
        (2.0, 3, 2, 1),
        (3600.0, 200, 1, 1),  # an hour fills it alone
        (120.0, 200, 1, 4),
        (None, 0, 1, 1),
    ],
)
def test_files_are_batched_as_far_as_it_pays(seconds, count, workers, expected):
    files = [AudioFile("x", "x", "x", seconds)] * count

    assert files_per_batch(files, workers, windows=16) == expected


# --- whole runs -------------------------------------------------------------------------------------------------


def test_a_folder_becomes_a_folder_of_transcripts(folder, tmp_path, capsys):
    root = folder("a.wav", 1.0, "a.mp3", 1.0, "deep/käse.flac", 2.0)

    launched = launch(root, tmp_path / "out", "cpu:2", formats="txt")

    assert launched.exit_code == 0
    assert launched.stats["completed"] == 3
    assert outputs(tmp_path / "out") == [
        *("a.mp3.json", "a.mp3.txt", "a.wav.json", "a.wav.txt", "deep/käse.json", "deep/käse.txt"),
    ]
    assert (tmp_path / "out" / "deep" / "käse.txt").read_text() == "32000 samples\n"
    assert "3 of 3 files transcribed" in capsys.readouterr().out


def test_one_bad_file_fails_alone_with_its_reason(folder, tmp_path):
    root = folder("a.wav", 1.0, "b.wav", 1.0)
    (root / "bad.wav").write_bytes(b"no sound")

    launched = launch(root, tmp_path / "out")

    assert launched.exit_code == 1
    assert launched.stats["completed"] == 2
    assert [f["file"] for f in launched.stats["failures"]] == ["bad.wav"]
    assert launched.stats["failures"][0]["error"].startswith("not readable as audio")


def test_a_second_run_does_nothing_and_starts_no_worker(folder, tmp_path):
    root = folder("a.wav", 1.0, "b.wav", 1.0)
    launch(root, tmp_path / "out")
    before = {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in outputs(tmp_path / "out")}

    class NoSpawner(ProcessSpawner):
        def spawn_workers(self, *args, **kwargs):
            raise AssertionError("nothing is to be done")

    second = LauncherOrchestrator(process_spawner=NoSpawner()).launch(
        root, tmp_path / "out", "cpu:1", "parrot", **PARROT
    )

    assert (second.exit_code, second.stats["completed"], second.stats["skipped"]) == (0, 0, 2)
    assert before == {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in outputs(tmp_path / "out")}


def test_a_second_run_does_what_is_new_or_changed(folder, tmp_path):
    root = folder("a.wav", 1.0, "b.wav", 1.0)
    launch(root, tmp_path / "out")
    folder("b.wav", 2.0, "c.wav", 3.0)

    second = launch(root, tmp_path / "out")

    assert (second.stats["completed"], second.stats["skipped"]) == (2, 1)
    assert (tmp_path / "out" / "b.txt").read_text() == "32000 samples\n"


@pytest.mark.parametrize(
    "changed",
    [{"overwrite": True}, {"settings": TranscriptionSettings(vad=False, beam_size=1)}, {"model": "other"}],
)
def test_other_settings_or_overwrite_do_it_again(folder, tmp_path, changed):
    root = folder("a.wav", 1.0)
    launch(root, tmp_path / "out")

    assert launch(root, tmp_path / "out", **changed).stats["completed"] == 1


def test_a_format_asked_for_later_is_written_without_transcribing(folder, tmp_path):
    root = folder("a.wav", 1.0)
    launch(root, tmp_path / "out", formats="txt")

    second = launch(root, tmp_path / "out", formats="vtt")

    assert (second.stats["completed"], second.stats["skipped"]) == (0, 1)
    assert "16000 samples" in (tmp_path / "out" / "a.vtt").read_text()


def test_output_inside_the_input_is_not_taken_for_input(folder):
    root = folder("a.wav", 1.0)
    launch(root, root / "out", pattern="*")

    second = launch(root, root / "out", pattern="*")

    assert (second.exit_code, second.stats["skipped"]) == (0, 1)


def test_transcripts_next_to_their_sources(folder):
    root = folder("a.wav", 1.0)
    launch(root, root)

    assert outputs(root) == ["a.json", "a.srt", "a.txt", "a.wav"]
    assert launch(root, root).stats["skipped"] == 1


def test_a_single_file_can_be_given(folder, tmp_path):
    root = folder("deep/a.wav", 1.0)

    assert launch(root / "deep" / "a.wav", tmp_path / "out").exit_code == 0
    assert "a.txt" in outputs(tmp_path / "out")


def test_a_file_that_kills_its_worker_costs_no_other(folder, tmp_path):
    root = folder("killer.wav", 3.0, *(part for n in range(6) for part in (f"{n}.wav", 1.0)))

    launched = launch(root, tmp_path / "out", model="deadly")

    assert launched.stats["completed"] == 6
    assert [f["file"] for f in launched.stats["failures"]] == ["killer.wav"]
    assert "SIGKILL" in launched.stats["failures"][0]["error"]


def test_a_model_that_cannot_be_loaded_is_one_line(folder, tmp_path, capsys):
    root = folder("a.wav", 1.0, "b.wav", 1.0)

    code = LauncherOrchestrator().run(root, tmp_path / "out", "cpu:2", "broken", **PARROT)

    assert code == 1
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1] == ("error: no worker could start: this model cannot be loaded: it is broken")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"input_dir": "nowhere"}, "does not exist"),
        ({"pattern": "*.xyz"}, "no file in .* matches"),
        ({"gpus": "0,x"}, "'x'"),
        ({"formats": "docx"}, "docx"),
        ({"engine": "nothing"}, "package.module:Class"),
        ({"language": "klingon", "settings": None}, "klingon"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_1(folder, tmp_path, capsys, changed, says):
    import re

    given = {"input_dir": folder("a.wav", 1.0), "output_dir": tmp_path / "out", "gpus": "cpu:1", "model_size": "parrot"}
    code = LauncherOrchestrator().run(**{**given, **PARROT, **changed})

    assert code == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")
    assert re.search(says, last)


# --- devices ----------------------------------------------------------------------------------------------------


def test_without_a_gpu_the_cpu_does_it_and_that_is_said(folder, tmp_path, capsys):
    root = folder("a.wav", 1.0, "b.wav", 1.0)

    launched = launch(root, tmp_path / "out", gpus=[0, 1])

    assert launched.exit_code == 0
    assert set(launched.stats["gpus"]) == {0, 1}
    assert "no GPU was found on this machine: 2 workers on the CPU" in capsys.readouterr().err
    assert launch(root, tmp_path / "out2", gpus="auto").exit_code == 0


def test_where_there_are_gpus_a_wrong_one_is_refused(four_gpus, folder, tmp_path, capsys):
    root = folder("a.wav", 1.0)
    orchestrator = LauncherOrchestrator()

    assert orchestrator.validate_setup(root, [0, 1]) == (True, None)
    assert orchestrator.validate_setup(root, [0, 9]) == (
        False,
        "GPU 9 not found on this machine; available: 0, 1, 2, 3",
    )
    assert orchestrator.validate_setup(root / "nowhere", [0])[0] is False
    assert orchestrator.run(root, tmp_path / "out", [9], **PARROT) == 1
    assert "GPU 9 not found" in capsys.readouterr().err
    assert [info["id"] for info in orchestrator.get_gpu_info()] == [0, 1, 2, 3]


def test_results_are_counted_by_gpu(four_gpus, folder, tmp_path):
    root = folder(*(part for n in range(8) for part in (f"{n}.wav", 1.0)))

    launched = launch(root, tmp_path / "out", gpus=[1, 3])

    gpus = launched.stats["gpus"]
    assert set(gpus) == {1, 3}
    assert sum(share["files"] for share in gpus.values()) == 8


def test_the_workload_of_a_folder_is_known_beforehand(folder):
    info = LauncherOrchestrator().get_workload_info(folder("a.wav", 1.0, "b.mp3", 1.0), "*.wav")

    assert (info["file_count"], [path.name for path in info["files"]]) == (1, ["a.wav"])


# --- the spawner by itself --------------------------------------------------------------------------------------


def spawn(spawner, tasks, out, gpus="cpu:1", model="parrot", **options):
    results: queue.Queue = queue.Queue()
    handles = spawner.spawn_workers(gpus, tasks, results, model, None, out, **{**PARROT, **options})
    return handles, results


def test_paths_in_a_queue_become_results_in_another(folder, tmp_path):
    root = folder("a.wav", 1.0, "a.mp3", 1.0, "deep/b.wav", 1.0)
    allocator, spawner = ResourceAllocator(), ProcessSpawner()
    tasks = allocator.create_task_queue(allocator.discover_files(root), num_workers=2)

    handles, results = spawn(spawner, tasks, tmp_path / "out", "cpu:2", input_dir=root)
    balancer = LoadBalancer([handle.gpu_id for handle in handles])
    balancer.monitor_progress(results, 3)
    assert spawner.wait_for_completion(timeout=30)

    assert [handle.gpu_id for handle in handles] == ["cpu-0", "cpu-1"]
    assert balancer.get_summary_stats()["completed"] == 3
    assert sum(name.endswith(".txt") for name in outputs(tmp_path / "out")) == 3
    assert not any(handle.is_alive() for handle in handles)
    assert spawner.error is None


def test_files_may_come_while_the_workers_run(folder, tmp_path):
    root = folder("a.wav", 1.0, "b.wav", 1.0)
    spawner, tasks = ProcessSpawner(), queue.Queue()

    handles, results = spawn(spawner, tasks, tmp_path / "out")
    tasks.put(root / "a.wav")
    assert results.get(timeout=30).file == "a.wav"
    assert handles[0].is_alive()
    assert isinstance(handles[0].pid, int)
    assert spawner.get_process_status()[0]["completed"] == 1
    assert not spawner.wait_for_completion(timeout=0.01)
    with pytest.raises(RuntimeError, match="running"):
        spawn(spawner, tasks, tmp_path / "out")
    tasks.put(root / "b.wav")
    tasks.put(None)

    assert results.get(timeout=30).file == "b.wav"
    assert spawner.wait_for_completion(timeout=30)


def test_terminating_gives_every_file_its_result(folder, tmp_path):
    root = folder(*(part for n in range(8) for part in (f"{n}.wav", 1.0)))
    allocator, spawner = ResourceAllocator(), ProcessSpawner()
    tasks = allocator.create_task_queue(allocator.discover_files(root), num_workers=1)

    _, results = spawn(spawner, tasks, tmp_path / "out", model="slow", batch_size=1)
    first = results.get(timeout=30)
    spawner.terminate_all()
    assert spawner.wait_for_completion(timeout=10)

    rest = [results.get_nowait() for _ in range(7)]
    assert results.empty()
    assert first.ok
    assert sorted(r.file for r in (first, *rest)) == sorted(f"{n}.wav" for n in range(8))
    assert sum(r.cancelled for r in rest) >= 5


def test_a_spawner_that_waits_for_files_can_be_cleaned_up_and_used_again(folder, tmp_path):
    root = folder("a.wav", 1.0)
    spawner = ProcessSpawner()
    spawn(spawner, queue.Queue(), tmp_path / "out")
    spawner.cleanup()
    assert spawner.get_process_status() == {}

    _, results = spawn(spawner, ResourceAllocator().create_task_queue([root / "a.wav"], 1), tmp_path / "out")
    assert results.get(timeout=30).ok
    spawner.cleanup()
    assert not [t for t in threading.enumerate() if t.name.startswith("gpu-dispatch")]


def test_when_no_worker_can_start_every_file_is_answered(folder, tmp_path):
    root = folder("a.wav", 1.0, "b.wav", 1.0)
    allocator, spawner = ResourceAllocator(), ProcessSpawner()
    tasks = allocator.create_task_queue(allocator.discover_files(root), num_workers=1)

    _, results = spawn(spawner, tasks, tmp_path / "out", model="broken")
    answers = [results.get(timeout=30), results.get(timeout=30)]
    spawner.wait_for_completion()

    assert {answer.file for answer in answers} == {"a.wav", "b.wav"}
    assert all(answer.cancelled and not answer.ok for answer in answers)
    assert spawner.error is not None


def test_a_file_that_takes_too_long_says_so(folder, tmp_path):
    launched = launch(folder("a.wav", 1.0), tmp_path / "out", model="slow", task_timeout=0.3)

    assert launched.stats["failures"] == [{"file": "a.wav", "error": "took longer than 0.3 s"}]


def test_the_record_names_the_engine(folder, tmp_path):
    launch(folder("a.wav", 1.0), tmp_path / "out")

    record = json.loads((tmp_path / "out" / "a.json").read_text())
    assert record["settings"]["engine"] == "parrot_engine.ParrotEngine"
