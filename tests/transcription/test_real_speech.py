"""The whole thing on real speech with a real model: Whisper tiny.en hears sentences that flite says."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import sounds
import srt
import webvtt

from gpu_dispatch.transcription import AudioFile, TranscriptionJob, TranscriptionWorker
from gpu_dispatch.transcription.engine import prepare_model
from gpu_dispatch.transcription.whisper_engine import FasterWhisperEngine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SENTENCES = [
    "the quick brown fox jumps over the lazy dog",
    "please transcribe this recording on the second graphics card",
    "good morning everyone and welcome to the meeting",
    "the weather today is sunny with a light wind from the west",
    "we need to finish the report before the end of the week",
    "she opened the window and looked at the garden",
    "thank you very much for your help",
    "my favorite color is blue",
    "the children are playing in the park",
    "he bought a new car last summer",
    "music makes people happy",
    "the library is closed on sunday",
]
SUFFIXES = ["wav", "mp3", "flac"]
FOLDERS = ["", "talks/", "talks/2024/Zürich/", "日本語/"]


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """Forty files, and what is said in those that are fine."""
    folder = tmp_path_factory.mktemp("clips")
    scratch = tmp_path_factory.mktemp("speech")
    said = {}
    spoken = [sounds.speech(sentence, scratch) for sentence in SENTENCES]
    for number in range(36):
        place, suffix = FOLDERS[number % 4], SUFFIXES[number % 3]
        name = f"{place}clip {number // 2} é.{suffix}"  # pairs with equal stems and different suffixes
        sounds.write(folder / name, spoken[number % len(SENTENCES)])
        said[name] = SENTENCES[number % len(SENTENCES)]
    sounds.write(folder / "nobody.wav", sounds.silence(3.0))
    sounds.write(folder / "talks" / "nothing.wav", sounds.silence(0.0))  # a header and not one sample
    said |= {"nobody.wav": "", "talks/nothing.wav": ""}
    (folder / "noise.mp3").write_bytes(random.Random(1).randbytes(30_000))
    sounds.truncated(sounds.write(folder / "talks" / "broken off.flac", spoken[0]))
    return folder, said


def command(clips: Path, out: Path, model: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "gpu_dispatch", "transcribe", str(clips), "-o", str(out)),
        *("--gpus", "cpu:2", "--model-size", str(model), "--formats", "all", "--json", *more),
    ]


def environment() -> dict[str, str]:
    return {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}


def run(clips: Path, out: Path, model: Path, *more: str) -> tuple[subprocess.CompletedProcess[str], dict]:
    done = subprocess.run(
        command(clips, out, model, *more), env=environment(), capture_output=True, text=True, timeout=800, check=False
    )
    assert done.stdout, done.stderr
    return done, json.loads(done.stdout)


def records(out: Path) -> dict[str, dict]:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in out.rglob("*.json")]
    return {record["source"]["path"]: record for record in found}


@pytest.fixture(scope="module")
def transcribed(clips, real_model, tmp_path_factory):
    out = tmp_path_factory.mktemp("transcripts")
    done, summary = run(clips[0], out, real_model)
    return out, done, summary


def test_forty_clips_are_transcribed_and_two_fail_with_their_reasons(clips, transcribed):
    folder, said = clips
    _, done, summary = transcribed

    assert sum(path.is_file() for path in folder.rglob("*")) == 40
    assert done.returncode == 1
    assert (summary["completed"], summary["failed"]) == (38, 2)
    reasons = {failure["file"]: failure["error"] for failure in summary["failures"]}
    assert set(reasons) == {"noise.mp3", "talks/broken off.flac"}
    assert "not readable as audio" in reasons["noise.mp3"]
    assert "truncated: its header says" in reasons["talks/broken off.flac"]
    assert set(said) == set(records(transcribed[0]))


def test_what_was_said_is_what_is_written(clips, transcribed):
    said = clips[1]
    heard = records(transcribed[0])

    errors = {name: sounds.word_errors(sentence, heard[name]["text"]) for name, sentence in said.items()}
    words = sum(len(sounds.words(sentence)) for sentence in said.values())

    assert sum(errors.values()) / words <= 0.1, {name: heard[name]["text"] for name, count in errors.items() if count}
    assert heard["nobody.wav"]["segments"] == []
    assert heard["talks/nothing.wav"]["segments"] == []


def test_every_format_of_every_clip_is_valid(transcribed):
    out = transcribed[0]
    for path in out.rglob("*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        texts = [segment["text"] for segment in record["segments"]]
        written = {
            s: path.with_name(f"{path.name.removesuffix('.json')}.{s}").read_text("utf-8")
            for s in ("txt", "srt", "vtt", "tsv")
        }
        cues = list(srt.parse(written["srt"], ignore_errors=False))
        assert [cue.content for cue in cues] == texts
        assert all(cue.start < cue.end for cue in cues)
        assert [cue.text for cue in webvtt.from_buffer(io.StringIO(written["vtt"]))] == texts
        assert written["txt"].splitlines() == texts
        assert [row.split("\t")[2] for row in written["tsv"].splitlines()[1:]] == texts


def test_a_second_run_transcribes_nothing(clips, transcribed, real_model):
    out = transcribed[0]
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}

    _, summary = run(clips[0], out, real_model)

    assert (summary["completed"], summary["skipped"], summary["failed"]) == (0, 38, 2)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()} == before


def test_killed_half_way_the_next_run_completes_without_repeating(clips, real_model, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen(
        command(clips[0], out, real_model, "--batch-size", "4"),
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300
    while len(list(out.rglob("*.json"))) < 12:
        assert process.poll() is None, "it was too fast to be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait(timeout=30)
    finished = {path: path.stat().st_mtime_ns for path in out.rglob("*.json")}
    assert 12 <= len(finished) < 38

    _, summary = run(clips[0], out, real_model)

    assert (summary["skipped"], summary["completed"]) == (len(finished), 38 - len(finished))
    assert len(records(out)) == 38
    for path, written_at in finished.items():
        assert path.stat().st_mtime_ns == written_at, f"{path} was done again"


class CountingEngine(FasterWhisperEngine):
    """Counts the calls of the model."""

    calls = 0

    def _generate(self, *arguments, **options):
        self.calls += 1
        return super()._generate(*arguments, **options)


def test_a_batch_across_files_needs_an_eighth_of_the_calls_and_gives_the_same_text(real_model, tmp_path):
    """The figures for 200 clips come from benchmarks/transcription_batching.py."""
    files = []
    for number, sentence in enumerate((SENTENCES * 2)[:16]):
        path = sounds.write(tmp_path / f"{number}.wav", sounds.speech(sentence, tmp_path)[: 2 * sounds.RATE])
        files.append(AudioFile(str(path), path.name, path.stem))
    worker = TranscriptionWorker()
    model = prepare_model(CountingEngine, str(real_model))
    job = TranscriptionJob(CountingEngine, model, str(tmp_path / "out"), windows_per_call=16, cpu_threads=2)
    worker.setup(0, 42, job=job)
    prepared = [worker.preprocess(file) for file in files]

    together = [done.transcript.text for done in worker.process_batch(prepared)]
    calls_together = worker._engine.calls
    alone = [worker.process_batch([each])[0].transcript.text for each in prepared]
    calls_alone = worker._engine.calls - calls_together

    assert together == alone
    assert calls_together <= calls_alone / 8


def test_words_have_times_and_make_up_the_text(real_model, tmp_path):
    sounds.write(
        tmp_path / "in" / "a.wav", np.concatenate([sounds.silence(2.0), sounds.speech(SENTENCES[0], tmp_path)])
    )

    run(tmp_path / "in", tmp_path / "out", real_model, "--word-timestamps", "--gpus", "cpu:1")
    (segment,) = json.loads((tmp_path / "out" / "a.json").read_text())["segments"]

    words = segment["words"]
    assert "".join(word["text"] for word in words).strip() == segment["text"]
    times = [time for word in words for time in (word["start"], word["end"])]
    assert times == sorted(times)
    assert 1.5 <= times[0] < times[-1] <= 5.1
    assert all(0.0 <= word["probability"] <= 1.0 for word in words)


def test_a_talk_longer_than_a_window_keeps_every_sentence(real_model, tmp_path):
    pause = sounds.silence(0.7)
    parts = [part for sentence in SENTENCES * 2 for part in (sounds.speech(sentence, tmp_path), pause)]
    sounds.write(tmp_path / "in" / "talk.mp3", np.concatenate(parts))

    _, summary = run(tmp_path / "in", tmp_path / "out", real_model, "--gpus", "cpu:1")
    record = json.loads((tmp_path / "out" / "talk.json").read_text())

    assert summary["audio_s"] > 60
    truth = " ".join(SENTENCES * 2)
    assert sounds.word_errors(truth, record["text"]) / len(sounds.words(truth)) <= 0.1, record["text"]
    starts = [segment["start"] for segment in record["segments"]]
    assert starts == sorted(starts)
    assert len(starts) >= 20
