"""Everything that the documentation shows of the launcher runs, with the models it names."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sounds

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs"
# As the installed script starts: without the working folder on sys.path.
INSTALLED = "import sys; del sys.path[0]; from gpu_dispatch.cli import main; sys.exit(main())"

# How the launcher was first described, from detecting GPUs to the summary. One script, in this order.
FIRST_DESCRIPTION = """
from gpu_dispatch.multigpu import GPUDetector

detector = GPUDetector()
gpus = detector.get_available_gpus()
is_valid, error = detector.validate_gpus([0, 1])

from pathlib import Path
from gpu_dispatch.multigpu import ResourceAllocator

allocator = ResourceAllocator()
files = allocator.discover_files(Path("data/audio"), "*.wav")
task_queue = allocator.create_task_queue(files, num_workers=2)
result_queue = allocator.create_result_queue()

from gpu_dispatch.multigpu import ProcessSpawner

spawner = ProcessSpawner()
processes = spawner.spawn_workers(
    gpu_ids=[0, 1],
    task_queue=task_queue,
    result_queue=result_queue,
    model_size="base",
    language=None,
    output_dir=Path("output")
)
spawner.wait_for_completion()

from gpu_dispatch.multigpu import LoadBalancer

balancer = LoadBalancer(gpu_ids=[0, 1])
balancer.monitor_progress(
    result_queue=result_queue,
    total_files=100,
    progress_callback=balancer.print_progress
)
balancer.print_summary(100)

from gpu_dispatch.multigpu import LauncherOrchestrator

orchestrator = LauncherOrchestrator()
exit_code = orchestrator.run(
    input_dir=Path("data/audio"),
    output_dir=Path("data/outputs"),
    gpus=[0, 1],
    model_size="base",
    language="en",
    pattern="*.wav"
)
assert exit_code == 0

# Create orchestrator
orchestrator = LauncherOrchestrator()

# Validate setup before running
is_valid, error = orchestrator.validate_setup(
    input_dir=Path("data/audio"),
    gpus=[0, 1]
)

assert is_valid, error
if is_valid:
    # Run transcription
    exit_code = orchestrator.run(
        input_dir=Path("data/audio"),
        output_dir=Path("data/outputs"),
        gpus=[0, 1],
        model_size="base"
    )

# Use GPUDetector for GPU management
detector = GPUDetector()
gpus = detector.get_available_gpus()
for gpu_id in gpus:
    info = detector.get_gpu_info(gpu_id)
    print(f"GPU {gpu_id}: {info['name']}, {info['total_memory']} bytes")

# Use ResourceAllocator for workload analysis
allocator = ResourceAllocator()
files = allocator.discover_files(Path("data/audio"), "*.wav")
stats = allocator.estimate_workload(files)
print(f"Total files: {stats['file_count']}")
print(f"Total size: {stats['total_size']} bytes")

# Test GPUDetector
detector = GPUDetector()
assert detector.is_cuda_available() in [True, False]

# Test ResourceAllocator
allocator = ResourceAllocator()
files = [Path("a.wav"), Path("b.wav")]
distributed = allocator.distribute_workload(files, num_gpus=2)
assert len(distributed) == 2

# Test LoadBalancer
balancer = LoadBalancer(gpu_ids=[0])
assert balancer.get_overall_rtf() == 0.0  # Initially empty

# Old way
input_dir, output_dir, gpus, model_size = Path("data/audio"), Path("data/again"), [0, 1], "base"
from launcher_multigpu import run_multi_gpu
exit_code = run_multi_gpu(input_dir, output_dir, gpus, model_size)
assert exit_code == 0

# New way (same result)
orchestrator = LauncherOrchestrator()
exit_code = orchestrator.run(input_dir, output_dir, gpus, model_size)
assert exit_code == 0
"""


@pytest.fixture(scope="session")
def hub_cache(tmp_path_factory) -> Path:
    """What the hub's client finds when the sizes that the pages name have been fetched before."""
    import tiny_whisper

    home = tmp_path_factory.mktemp("hub")
    for size in ("base", "large-v3"):
        repository = home / "hub" / f"models--Systran--faster-whisper-{size}"
        tiny_whisper.build(repository / "snapshots" / "0123456789abcdef")
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("0123456789abcdef")
    return home


@pytest.fixture
def place(tmp_path, hub_cache):
    """A folder to run in, as a user would have it: data/audio, the example script, and models in the cache."""
    shutil.copy(ROOT / "examples" / "launcher_multigpu.py", tmp_path)
    environment = {**os.environ, "HF_HOME": str(hub_cache), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("HF_HUB_CACHE", None)

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=150, check=False
        )

    def fill(count: int) -> None:
        spoken = sounds.speech("hello", tmp_path)
        for number in range(count):
            sounds.write(tmp_path / "data" / "audio" / f"{number}.wav", spoken if number < 3 else sounds.silence(0.2))

    run.folder, run.fill = tmp_path, fill
    return run


def test_the_launcher_does_what_was_first_said_of_it(place):
    place.fill(100)
    (place.folder / "script.py").write_text(FIRST_DESCRIPTION)  # without a __main__ guard: none is needed

    done = place(sys.executable, "script.py")

    assert done.returncode == 0, done.stderr
    assert "100 of 100 files transcribed" in done.stdout
    assert "100 already done" in done.stdout
    assert "Total files: 100" in done.stdout
    assert json.loads((place.folder / "data" / "outputs" / "0.json").read_text())["text"] == "hello from a tiny model"


@pytest.mark.parametrize("arguments", [["--gpus", "auto"], ["--gpus", "0,1,2", "--model-size", "large-v3"]])
def test_its_command_line_works_as_written(place, arguments):
    place.fill(3)
    done = place(sys.executable, "launcher_multigpu.py", "--input-dir", "data/audio", *arguments)

    assert done.returncode == 0, done.stderr
    assert (place.folder / "data" / "outputs" / "2.txt").read_text() == "hello from a tiny model\n"


def test_its_other_options_work_too(place):
    place.fill(2)
    sounds.write(place.folder / "data" / "audio" / "c.mp3", sounds.silence(0.2))
    done = place(
        *(sys.executable, "launcher_multigpu.py", "--input-dir", "data/audio", "--output-dir", "out"),
        *("--gpus", "cpu:1", "--language", "en", "--pattern", "*.mp3"),
    )

    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (place.folder / "out").iterdir()) == ["c.json", "c.srt", "c.txt"]


def test_every_snippet_of_the_reference_runs(place):
    page = (PAGES / "reference" / "launcher.md").read_text()
    snippets = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    commands = re.findall(r"^python (launcher_multigpu\.py .*)$", page, re.M)
    assert (len(snippets), len(commands)) == (4, 2)
    place.fill(3)
    for snippet in snippets:
        (place.folder / "snippet.py").write_text(snippet)
        done = place(sys.executable, "snippet.py")
        assert done.returncode == 0, f"{snippet}\n{done.stderr}"
    for command in commands:
        assert place(sys.executable, *command.split()).returncode == 0, command


def test_the_commands_and_the_engine_of_the_how_to_run(place):
    page = (PAGES / "howto" / "transcribe.md").read_text()
    (engine,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    (place.folder / "my_engines.py").write_text(engine)
    place.fill(3)
    (place.folder / "data" / "audio").rename(place.folder / "talks")
    commands = re.findall(r"^gpu-dispatch (.*)$", page, re.M)
    assert len(commands) == 2
    for command in commands:
        done = place(sys.executable, "-c", INSTALLED, *command.split())
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert (place.folder / "out" / "0.txt").read_text() in ("loud\n", "quiet\n")
