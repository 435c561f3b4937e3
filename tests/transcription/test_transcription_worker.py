"""The worker, in this process: what a file becomes, and what one file does to another in its batch."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import sounds

from gpu_dispatch.transcription import AudioError, AudioFile, Heard, PreparedModel, Segment
from gpu_dispatch.transcription.job import TranscriptionJob
from gpu_dispatch.transcription.record import content_hash
from gpu_dispatch.transcription.settings import TranscriptionSettings
from gpu_dispatch.transcription.worker import TranscriptionWorker, windows_in


class Listener:
    """An engine that tells how long each window was; its memory holds ``capacity`` of them."""

    capacity = 100
    calls: list[int]

    def load(self, model, device, settings, cpu_threads):
        self.calls = []

    def prepare_sound(self, samples):
        return len(samples)

    def transcribe(self, windows):
        self.calls.append(len(windows))
        if len(windows) > self.capacity:
            raise RuntimeError("CUDA failed with error out of memory")
        return [Heard((Segment(0.0, w.duration_s, f" {w.sound} from {w.source}"),), "en", 0.5) for w in windows]


@pytest.fixture
def worker(tmp_path):
    def make(engine=Listener, **options) -> TranscriptionWorker:
        settings = options.pop("settings", TranscriptionSettings(vad=False))
        model = options.pop("model", PreparedModel("m", "m", "f"))
        made = TranscriptionWorker()
        made.setup(0, 42, job=TranscriptionJob(engine, model, str(tmp_path / "out"), settings, **options))
        return made

    return make


@pytest.fixture
def file(tmp_path):
    def make(name: str, seconds: float) -> AudioFile:
        path = sounds.write(tmp_path / "in" / name, sounds.tone(seconds))
        return AudioFile(str(path), name, name.rpartition(".")[0])

    return make


def test_one_file_becomes_all_its_formats(worker, file, tmp_path):
    result = worker(formats=("txt", "srt", "vtt", "tsv", "json")).process(file("talks/käse.wav", 2.0))

    assert result.ok
    assert (result.audio_s, result.segments, result.language) == (2.0, 1, "en")
    written = os.listdir(tmp_path / "out" / "talks")
    assert sorted(written) == [f"käse.{f}" for f in ("json", "srt", "tsv", "txt", "vtt")]
    assert (tmp_path / "out" / "talks" / "käse.txt").read_text() == "32000 from 0\n"


def test_the_record_says_of_what_and_how_it_was_made(worker, file, tmp_path):
    item = file("a.wav", 2.0)
    worker().process(item)

    record = json.loads((tmp_path / "out" / "a.json").read_text())

    assert record["source"]["path"] == "a.wav"
    assert record["source"]["sha256"] == content_hash(tmp_path / "in" / "a.wav")
    assert record["settings"]["model"] == "m"
    assert record["settings"]["beam_size"] == 5
    assert record["language"] == "en"
    assert record["segments"][0]["text"] == "32000 from 0"


def test_windows_of_many_files_go_to_the_model_together(worker, file):
    listener = worker(windows_per_call=16)
    prepared = [listener.preprocess(file(f"{n}.wav", 1.0 + n / 10)) for n in range(32)]

    done = listener.process_batch(prepared)

    assert listener._engine.calls == [16, 16]
    assert [each.transcript.text for each in done] == [f"{int(16000 * (1 + n / 10))} from {n}" for n in range(32)]


def test_a_long_file_is_put_together_from_its_windows_in_order(worker, file):
    result = worker(windows_per_call=2)
    done = result.process_batch([result.preprocess(file("long.wav", 100.0))])[0]

    assert result._engine.calls == [2, 2]
    assert [(s.start, s.end) for s in done.transcript.segments] == [(0, 25), (25, 50), (50, 75), (75, 100)]


def test_a_device_without_enough_memory_gets_less_at_once(worker, file):
    class Small(Listener):
        capacity = 3

    small = worker(Small, windows_per_call=16)
    prepared = [small.preprocess(file(f"{n}.wav", 1.0)) for n in range(8)]

    done = small.process_batch(prepared)

    assert small._engine.calls == [8, 4, 2, 2, 4, 2, 2]
    assert [each.transcript.segments[0].text.split()[-1] for each in done] == [str(n) for n in range(8)]
    small.process_batch(prepared[:4])
    assert small._engine.calls[7:] == [2, 2]  # it has learnt


def test_a_window_that_does_not_fit_alone_is_an_error(worker, file):
    class Tiny(Listener):
        capacity = 0

    tiny = worker(Tiny)
    with pytest.raises(RuntimeError, match="out of memory"):
        tiny.process(file("a.wav", 1.0))


def test_other_errors_of_the_engine_are_not_taken_for_lack_of_memory(worker, file):
    class Broken(Listener):
        def transcribe(self, windows):
            self.calls.append(len(windows))
            raise RuntimeError("an illegal memory access was encountered")

    broken = worker(Broken)
    prepared = [broken.preprocess(file(f"{n}.wav", 1.0)) for n in range(4)]
    with pytest.raises(RuntimeError, match="illegal memory access"):
        broken.process_batch(prepared)
    assert broken._engine.calls == [4]


def test_the_language_found_first_holds_for_the_rest_of_the_file(worker, file):
    class Polyglot(Listener):
        def transcribe(self, windows):
            self.calls.append([w.language for w in windows])
            return [Heard((), w.language or f"l{len(self.calls)}", 0.5) for w in windows]

    polyglot = worker(Polyglot, windows_per_call=1)
    result = polyglot.process(file("a.wav", 70.0))

    assert polyglot._engine.calls == [[None], ["l1"], ["l1"]]
    assert result.language == "l1"


def test_an_engine_that_loses_a_window_is_found_out(worker, file):
    class Forgetful(Listener):
        def transcribe(self, windows):
            return []

    with pytest.raises(RuntimeError, match="0 answers for 1 windows"):
        worker(Forgetful).process(file("a.wav", 1.0))


def test_an_engine_without_features_gets_samples(worker, file):
    class Plain:
        def load(self, model, device, settings, cpu_threads):
            pass

        def transcribe(self, windows):
            assert windows[0].sound.dtype == np.float32
            assert abs(windows[0].sound).max() <= 1.0
            return [Heard(()) for _ in windows]

    assert worker(Plain).process(file("a.wav", 1.0)).ok


@pytest.mark.parametrize("seconds", [0.0, 3.0])
def test_where_nobody_speaks_the_model_is_not_asked_and_the_transcript_is_empty(worker, tmp_path, seconds):
    path = sounds.write(tmp_path / "in" / "a.wav", sounds.silence(seconds))
    listener = worker(settings=TranscriptionSettings(vad=True))

    result = listener.process(AudioFile(str(path), "a.wav", "a"))

    assert result.ok
    assert (result.segments, result.audio_s, result.speech_s) == (0, seconds, 0.0)
    assert listener._engine.calls == []
    assert (tmp_path / "out" / "a.txt").read_text() == ""


def test_a_long_file_is_decoded_while_it_is_transcribed(worker, tmp_path, monkeypatch):
    monkeypatch.setattr("gpu_dispatch.transcription.worker._LONG_S", 50.0)
    path = sounds.write(tmp_path / "in" / "long.mp3", sounds.tone(100.0))
    listener = worker(windows_per_call=2)
    item = AudioFile(str(path), "long.mp3", "long", duration_s=100.0)

    prepared = listener.preprocess(item)
    assert prepared.windows is None
    assert windows_in(prepared) > 1000  # it goes alone
    done = listener.process_batch([prepared])[0]

    assert done.transcript.duration_s == pytest.approx(100.0, abs=0.1)
    assert [(s.start, s.end) for s in done.transcript.segments] == [(0, 25), (25, 50), (50, 75), (75, 100)]
    assert listener.process_batch([prepared])[0].transcript == done.transcript  # tried again, it is the same


def test_a_long_file_that_turns_out_to_be_truncated_fails(worker, tmp_path, monkeypatch):
    monkeypatch.setattr("gpu_dispatch.transcription.worker._LONG_S", 50.0)
    path = sounds.truncated(sounds.write(tmp_path / "in" / "long.flac", sounds.tone(200.0)))
    listener = worker()

    with pytest.raises(AudioError, match="truncated"):
        listener.process(AudioFile(str(path), "long.flac", "long", duration_s=200.0))
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_gone_says_so(worker, tmp_path):
    with pytest.raises(AudioError, match="cannot be read: No such file"):
        worker().process(AudioFile(str(tmp_path / "gone.wav"), "gone.wav", "gone"))


def test_a_file_that_cannot_be_decoded_writes_nothing(worker, tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(b"no sound here")
    with pytest.raises(AudioError, match="not readable"):
        worker().process(AudioFile(str(path), "a.wav", "a"))
    assert not (tmp_path / "out").exists()


def test_the_dispatcher_may_run_the_steps_itself(worker, file):
    """With I/O threads it calls preprocess, hands the outcome to process, and hands that to postprocess."""
    listener = worker()
    prepared = listener.preprocess(file("a.wav", 1.0))
    assert listener.postprocess(listener.process(prepared)).ok


def test_the_shipped_engine_finds_speech_in_silence(scripted_model, worker, tmp_path):
    from gpu_dispatch.transcription.engine import prepare_model
    from gpu_dispatch.transcription.whisper_engine import FasterWhisperEngine

    spoken = sounds.speech("good morning everyone", tmp_path)
    path = sounds.write(
        tmp_path / "in" / "a.flac", np.concatenate([sounds.silence(20.0), spoken, sounds.silence(20.0), spoken])
    )
    whisper = worker(
        FasterWhisperEngine,
        settings=TranscriptionSettings(beam_size=1),
        model=prepare_model(FasterWhisperEngine, str(scripted_model)),
        cpu_threads=1,
    )

    result = whisper.process(AudioFile(str(path), "a.flac", "a"))
    segments = json.loads((tmp_path / "out" / "a.json").read_text())["segments"]

    assert result.speech_s < 6.0
    assert [segment["text"] for segment in segments] == ["hello from a tiny model"] * 2
    assert segments[0]["start"] == pytest.approx(20.0, abs=0.6)
    assert segments[1]["start"] == pytest.approx(40.0 + len(spoken) / sounds.RATE, abs=0.6)
