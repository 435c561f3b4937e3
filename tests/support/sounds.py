"""Sound files for tests: tones, silence, speech by flite, in any container that PyAV can write."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import wave
from pathlib import Path

import av
import numpy as np

RATE = 16_000
_CODECS = {
    ".wav": ("pcm_s16le", RATE),
    ".mp3": ("libmp3lame", RATE),
    ".flac": ("flac", RATE),
    ".m4a": ("aac", RATE),
    ".mp4": ("aac", RATE),
    ".ogg": ("libopus", 48_000),
}


def tone(seconds: float, pitch: float = 440.0) -> np.ndarray:
    return (np.sin(np.arange(int(seconds * RATE)) * 2 * np.pi * pitch / RATE) * 8000).astype(np.int16)


def silence(seconds: float) -> np.ndarray:
    return np.zeros(int(seconds * RATE), dtype=np.int16)


def write(path: Path, samples: np.ndarray) -> Path:
    """Encode mono int16 samples at 16 kHz, as the suffix says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".wav" or not len(samples):
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(samples.tobytes())
        return path
    codec, rate = _CODECS[path.suffix]
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = RATE
        resampler = av.AudioResampler(format=stream.codec_context.format.name, layout="mono", rate=rate)
        fifo = av.AudioFifo()
        for piece in (*resampler.resample(frame), *resampler.resample(None)):
            piece.pts = None
            fifo.write(piece)
        while fifo.samples:
            container.mux(stream.encode(fifo.read(stream.codec_context.frame_size or 1024, partial=True)))
        container.mux(stream.encode(None))
    return path


def truncated(path: Path, share: float = 0.5) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    return path


def wav_with_length(path: Path, samples: np.ndarray, length: int) -> Path:
    """A wav whose header claims ``length`` bytes of samples."""
    write(path, samples)
    content = bytearray(path.read_bytes())
    at = content.index(b"data") + 4
    content[at : at + 4] = struct.pack("<I", length)
    path.write_bytes(content)
    return path


def speech(text: str, folder: Path) -> np.ndarray:
    """Said by flite, at 16 kHz."""
    program = shutil.which("flite")
    if program is None:
        raise RuntimeError("these tests need the speech synthesiser flite: apt-get install -y flite")
    path = folder / "speech.wav"
    subprocess.run([program, "-voice", "slt", "-t", text, "-o", str(path)], check=True, timeout=60)
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2)
        return np.frombuffer(file.readframes(file.getnframes()), dtype=np.int16)


def words(text: str) -> list[str]:
    """For comparing: lower case, no punctuation, small numbers spelt."""
    numbers = {"1": "one", "2": "two", "3": "three", "4": "four", "5": "five", "6": "six", "7": "seven", "8": "eight"}
    numbers |= {"9": "nine", "10": "ten", "20": "twenty", "30": "thirty", "50": "fifty", "100": "one hundred"}
    spelt = (numbers.get(word, word) for word in re.findall(r"[a-z0-9']+", text.lower()))
    return " ".join(spelt).split()


def word_errors(truth: str, heard: str) -> int:
    """The least number of words to replace, add or leave out."""
    wanted, got = words(truth), words(heard)
    row = list(range(len(got) + 1))
    for i, word in enumerate(wanted, start=1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(got, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]
