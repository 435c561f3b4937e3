"""Sound out of every container, and a clear reason when there is none."""

from __future__ import annotations

import random

import numpy as np
import pytest
import sounds

from gpu_dispatch.transcription.audio import AudioError, AudioStream, probe_duration

EVERY_KIND = ["wav", "mp3", "flac", "m4a", "ogg", "mp4"]


def decode(path, **options):
    """All of it: the samples, and the stream, which then knows its length and warnings."""
    stream = AudioStream(path, **options)
    blocks = list(stream)
    return np.concatenate(blocks) if blocks else np.zeros(0, np.int16), stream


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_container_gives_the_same_sound(tmp_path, kind):
    original = sounds.tone(2.0)
    path = sounds.write(tmp_path / f"töne 日本.{kind}", original)

    samples, stream = decode(path)

    assert samples.dtype == np.int16
    assert stream.duration_s == pytest.approx(2.0, abs=0.1)
    middle = samples[8000:24000].astype(float)
    pitch = np.argmax(np.abs(np.fft.rfft(middle))) * sounds.RATE / len(middle)
    assert pitch == pytest.approx(440.0, abs=2.0)
    assert stream.warnings == ()


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_the_length_is_known_without_decoding(tmp_path, kind):
    path = sounds.write(tmp_path / f"a.{kind}", sounds.tone(3.0))

    assert probe_duration(path) == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_blocks_are_the_whole_in_parts_as_often_as_it_is_read(tmp_path, kind):
    path = sounds.write(tmp_path / f"a.{kind}", sounds.tone(5.0))
    whole, stream = decode(path)

    blocks = list(AudioStream(path, block_s=1.0))

    assert len(blocks) >= 4
    assert np.array_equal(np.concatenate(blocks), whole)
    assert np.array_equal(np.concatenate(list(stream)), whole)
    assert stream.duration_s == len(whole) / sounds.RATE


def test_stereo_at_another_rate_becomes_mono_at_16_khz(tmp_path):
    import wave

    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44100)
        file.writeframes(np.repeat(np.resize(sounds.tone(1.0), 44100), 2).astype(np.int16).tobytes())

    assert len(decode(tmp_path / "a.wav")[0]) == pytest.approx(16000, abs=50)
    assert probe_duration(tmp_path / "a.wav") == pytest.approx(1.0)


def test_a_file_without_samples_is_not_an_error(tmp_path):
    path = sounds.write(tmp_path / "a.wav", sounds.silence(0.0))

    assert len(decode(path)[0]) == 0
    assert probe_duration(path) == 0.0


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_zero_bytes_are_an_empty_file(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    path.touch()

    with pytest.raises(AudioError, match=r"empty \(0 bytes\)"):
        decode(path)
    assert probe_duration(path) is None


@pytest.mark.parametrize("content", ["noise", "text"])
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_what_is_not_audio_says_so_whatever_its_name(tmp_path, kind, content):
    path = tmp_path / f"a.{kind}"
    path.write_bytes(random.Random(1).randbytes(20_000) if content == "noise" else b"this is no audio\n" * 99)

    with pytest.raises(AudioError, match="not readable as audio"):
        decode(path)
    assert probe_duration(path) is None


@pytest.mark.parametrize("kind", ["wav", "flac", "m4a", "mp4"])
def test_a_download_that_broke_off_is_an_error(tmp_path, kind):
    path = sounds.truncated(sounds.write(tmp_path / f"a.{kind}", sounds.tone(4.0)))

    with pytest.raises(AudioError, match=r"truncated|not readable"):
        decode(path)


def test_what_is_there_of_a_damaged_file_can_be_asked_for(tmp_path):
    path = sounds.truncated(sounds.write(tmp_path / "a.wav", sounds.tone(4.0)))

    _, stream = decode(path, allow_damaged=True)

    assert stream.duration_s == pytest.approx(2.0, abs=0.1)
    assert "truncated: its header says 4.0 s, 2.0 s are there" in stream.warnings[0]


def test_a_damaged_file_is_an_error_that_counts_the_damage(tmp_path):
    path = sounds.write(tmp_path / "a.mp3", sounds.tone(4.0))
    content = bytearray(path.read_bytes())
    dice = random.Random(1)
    for place in range(200, len(content), 7):
        content[place] = dice.randrange(256)
    path.write_bytes(content)

    with pytest.raises(AudioError, match=r"damaged"):
        decode(path)


@pytest.mark.parametrize("length", [0, 0xFFFFFFFF, 0x7FFFFFFF])
def test_a_wav_written_to_a_pipe_does_not_know_its_length_and_is_fine(tmp_path, length):
    path = sounds.wav_with_length(tmp_path / "a.wav", sounds.tone(2.0), length)

    assert probe_duration(path) == pytest.approx(2.0, abs=0.01)
    if length:  # ffmpeg itself takes a length of zero at its word
        assert decode(path)[1].duration_s == pytest.approx(2.0, abs=0.01)


def test_a_film_without_sound_says_so(tmp_path):
    import av

    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for _ in range(5):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")))
        container.mux(stream.encode(None))

    with pytest.raises(AudioError, match="no audio stream"):
        decode(path)
    assert probe_duration(path) is None


def test_a_file_that_cannot_be_read_says_why(tmp_path):
    with pytest.raises(AudioError, match="cannot be read: No such file"):
        decode(tmp_path / "gone.wav")
    assert probe_duration(tmp_path / "gone.wav") is None
