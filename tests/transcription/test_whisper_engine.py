"""The engine that is shipped, on models that are made here: structure, languages, batches, mistakes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import sounds

from gpu_dispatch.errors import UsageError
from gpu_dispatch.transcription.engine import EngineError, Window, find_engine, prepare_model
from gpu_dispatch.transcription.settings import TranscriptionSettings
from gpu_dispatch.transcription.whisper_engine import FasterWhisperEngine


def loaded(model, **settings) -> FasterWhisperEngine:
    engine = FasterWhisperEngine()
    engine.load(str(model), "cpu", TranscriptionSettings(beam_size=1, **settings), cpu_threads=1)
    return engine


def window(engine, seconds=3.0, pitch=440.0, source=0, language=None) -> Window:
    return Window(engine.prepare_sound(sounds.tone(seconds, pitch)), seconds, source, language)


def test_segments_come_with_their_times(scripted_model):
    engine = loaded(scripted_model)

    (heard,) = engine.transcribe([window(engine)])

    assert [(s.start, s.end, s.text) for s in heard.segments] == [(0.0, 2.5, " hello from a tiny model")]
    assert (heard.language, heard.language_probability) == ("en", None)
    assert heard.segments[0].words is None


def test_no_segment_lasts_longer_than_its_window(scripted_model):
    engine = loaded(scripted_model)

    (heard,) = engine.transcribe([window(engine, seconds=1.0)])

    assert heard.segments[0].end == 1.0


def test_where_the_model_stops_early_it_is_asked_for_the_rest(scripted_model):
    """This one stops after 2.5 s, whatever follows; a real one does it now and then, after a full stop."""
    engine = loaded(scripted_model)

    heard = engine.transcribe([window(engine, seconds=6.2), window(engine, seconds=3.0), window(engine, seconds=4.0)])

    assert [[(s.start, s.end) for s in each.segments] for each in heard] == [
        [(0.0, 2.5), (2.5, 5.0), (5.0, 6.2)],
        [(0.0, 2.5)],  # half a second is no voice
        [(0.0, 2.5), (2.5, 4.0)],
    ]


def test_a_window_in_which_the_model_repeats_itself_is_heard_again_without_repeating(scripted_model, monkeypatch):
    engine = loaded(scripted_model)
    asked = []
    generate = engine._generate
    monkeypatch.setattr(engine, "_generate", lambda *a, **o: asked.append((len(a[1]), o)) or generate(*a, **o))
    ratios = iter([1.0, 9.0, 1.0])
    monkeypatch.setattr(engine, "_ratio", lambda *_: next(ratios))

    heard = engine.transcribe([window(engine) for _ in range(3)])

    assert asked == [(3, {}), (1, {"no_repeat_ngram_size": 3})]
    assert [each.segments[0].text for each in heard] == [" hello from a tiny model"] * 3


def test_repetition_is_recognised(random_model):
    engine = loaded(random_model)
    text = {"loop": list(range(60, 70)) * 20, "speech": list(range(40, 100))}

    class Result:
        def __init__(self, tokens):
            self.sequences_ids = [tokens]

    assert engine._ratio(Result(text["loop"]), "en") > 2.4
    assert engine._ratio(Result(text["speech"]), "en") < 2.4
    assert engine._ratio(Result([]), "en") < 2.4


def test_windows_of_different_length_share_a_batch_and_keep_their_order(random_model):
    engine = loaded(random_model)
    windows = [window(engine, seconds=s, pitch=100.0 * s, source=n) for n, s in enumerate((0.3, 2.0, 30.0, 7.5, 1.0))]

    together = engine.transcribe(windows)
    alone = [engine.transcribe([each])[0] for each in windows]

    texts = [[s.text for s in heard.segments] for heard in together]
    assert texts == [[s.text for s in heard.segments] for heard in alone]
    assert len({str(text) for text in texts}) > 1  # the model does hear a difference


def test_the_language_is_detected_once_per_file(multilingual_model):
    engine = loaded(multilingual_model)

    heard = engine.transcribe([window(engine, source=0), window(engine, source=0), window(engine, source=1)])

    assert [h.language for h in heard] == ["en", "en", "en"]
    assert heard[0].language_probability is not None
    assert 0.0 < heard[0].language_probability <= 1.0


def test_a_language_that_was_asked_for_is_not_detected(multilingual_model):
    engine = loaded(multilingual_model, language="de")

    (heard,) = engine.transcribe([window(engine, language="de")])

    assert (heard.language, heard.language_probability) == ("de", None)


def test_languages_can_be_mixed_in_a_batch(multilingual_model):
    engine = loaded(multilingual_model)

    heard = engine.transcribe([window(engine, source=0, language="en"), window(engine, source=1, language="fr")])

    assert [h.language for h in heard] == ["en", "fr"]


def test_a_prompt_is_accepted(scripted_model):
    engine = loaded(scripted_model, initial_prompt="CTranslate2, Käse")

    assert engine.transcribe([window(engine)])[0].segments


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"language": "de"}, "knows only English"), ({"task": "translate"}, "cannot translate")],
)
def test_an_english_model_refuses_what_it_cannot_do(scripted_model, settings, says):
    with pytest.raises(EngineError, match=says):
        loaded(scripted_model, **settings)


def test_a_language_nobody_knows_is_named(multilingual_model):
    with pytest.raises(EngineError, match="does not know the language 'qx'"):
        loaded(multilingual_model, language="qx")


def test_a_device_without_cuda_says_what_to_do(scripted_model):
    with pytest.raises(EngineError, match=r"CUDA.*gpus='cpu:1'"):
        FasterWhisperEngine().load(str(scripted_model), "cuda:0", TranscriptionSettings(), 1)


@pytest.mark.parametrize("device", ["mps", "xpu:0"])
def test_a_device_it_cannot_use_is_named(scripted_model, device):
    with pytest.raises(EngineError, match=device):
        FasterWhisperEngine().load(str(scripted_model), device, TranscriptionSettings(), 1)


def test_a_damaged_model_is_an_error_of_one_line(scripted_model, tmp_path):
    (tmp_path / "model.bin").write_bytes(b"nothing")

    with pytest.raises(EngineError, match="cannot be loaded on cpu as int8"):
        loaded(tmp_path)


# --- names of models -------------------------------------------------------------------------------------------


def test_a_folder_is_a_model_and_is_known_again_wherever_it_lies(scripted_model, random_model, tmp_path):
    import shutil

    copy = shutil.copytree(scripted_model, tmp_path / "copy")
    here, there, other = (prepare_model(FasterWhisperEngine, str(f)) for f in (scripted_model, copy, random_model))

    assert here.location == str(scripted_model)
    assert here.fingerprint == there.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("bse", "there is no model 'bse'; sizes are .*base"),
        ("./nowhere", "no such folder"),
        ("/no/such/model", "no such folder"),
        ("a/b/c", "no such folder"),
        ("base", "not on this machine, and HF_HUB_OFFLINE"),
        ("someone/some-model", "not on this machine, and HF_HUB_OFFLINE"),
    ],
)
def test_a_model_that_is_not_there_says_what_to_do(name, says, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=says):
        prepare_model(FasterWhisperEngine, name)


def test_a_folder_without_a_model_says_so(tmp_path):
    with pytest.raises(UsageError, match=r"without a model\.bin"):
        prepare_model(FasterWhisperEngine, str(tmp_path))


# --- other engines ---------------------------------------------------------------------------------------------


class Parrot:
    def load(self, model, device, settings, cpu_threads):
        pass

    def transcribe(self, windows):
        return []


def test_any_class_with_load_and_transcribe_is_an_engine():
    assert find_engine(Parrot) is Parrot
    assert find_engine("faster-whisper") is FasterWhisperEngine
    assert prepare_model(Parrot, "polly").location == "polly"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("whisper", "package.module:Class"),
        ("no.such.module:Class", "no.such"),
        ("json:Nothing", "Nothing"),
        ("json:JSONDecoder", "no load and no transcribe"),
        (print, "no load"),
    ],
)
def test_what_is_no_engine_is_refused(spec, says):
    with pytest.raises(UsageError, match=says):
        find_engine(spec)


def test_nothing_is_reported_to_anybody_and_nothing_is_kept_at_home(tmp_path):
    """onnxruntime would open a database of things to report in the home folder as soon as it is imported."""
    code = (
        "import numpy as np\n"
        "from gpu_dispatch.transcription.speech import find_speech\n"
        "assert find_speech(np.zeros(16000, np.int16)) == []\n"
    )
    unset = ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    environment = {k: v for k, v in os.environ.items() if k not in unset} | {"HOME": str(tmp_path)}

    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)

    assert list(tmp_path.iterdir()) == []
