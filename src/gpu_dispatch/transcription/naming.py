"""Which name the transcripts of a file get.

    input/talks/Käse.mp3   →  output/talks/Käse.txt  Käse.srt  Käse.json …
    input/a.wav, a.mp3     →  output/a.wav.txt  output/a.mp3.txt …

Guarantees
- The folders of the input are mirrored; a name never leads out of the output folder.
- No two sources share a name, within a run or across runs (another pattern, a file added later), also where the file
  system does not tell ``A`` from ``a`` or ``é`` from ``é``.
- A name stays: a finished transcript keeps its own, which its record tells.
- A source is never overwritten, also when input and output are the same folder.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from gpu_dispatch.transcription.formats import FORMATS
from gpu_dispatch.transcription.record import Record, printable, read_record

_LONGEST_NAME = 240  # bytes; file systems allow 255, and ".json" and the mark of a shortened name must fit


@dataclass(frozen=True, slots=True)
class Claim:
    stem: str
    """Relative to the output folder; a format's suffix is appended to it."""
    record: Record | None
    """What an earlier run has left under this name for this very source."""


class OutputNames:
    """Hands out names, each once."""

    def __init__(self, output_dir: Path, sources: Iterable[Path] = ()) -> None:
        self._output_dir = output_dir
        self._taken: set[str] = set()
        # Only a source that looks like one of our outputs can be in the way of one.
        self._sources = {path.resolve() for path in sources if path.suffix.lower().removeprefix(".") in FORMATS}

    def claim(self, relative: PurePath, *, crowded: bool = False) -> Claim:
        """``crowded``: the input folder holds another file that differs from this one only in its suffix."""
        if relative.is_absolute() or ".." in relative.parts:
            raise ValueError(f"{relative} does not lie inside the input folder")
        name = printable(relative)
        for place, stem in enumerate(_candidates(relative)):
            if _folded(stem) in self._taken or self._hits_a_source(stem):
                continue
            record = read_record(self._output_dir / f"{stem}.json")
            if record is not None and record.name != name:
                continue  # the transcript of another file, perhaps of one that is no longer there
            if crowded and place == 0 and record is None:
                continue
            self._taken.add(_folded(stem))
            return Claim(stem, record)
        raise AssertionError("the list of candidates has no end")

    def _hits_a_source(self, stem: str) -> bool:
        return bool(self._sources) and any(
            (self._output_dir / f"{stem}.{suffix}").resolve() in self._sources for suffix in FORMATS
        )


def crowded_stems(relatives: Iterable[PurePath]) -> set[str]:
    """The folded stems that more than one of the files has."""
    seen: set[str] = set()
    twice: set[str] = set()
    for relative in relatives:
        stem = stem_of(relative)
        (twice if stem in seen else seen).add(stem)
    return twice


def stem_of(relative: PurePath) -> str:
    return _folded(str(relative.with_suffix("")))


def _candidates(relative: PurePath) -> Iterator[str]:
    yield str(relative.with_name(_shortened(relative.stem)))
    yield str(relative.with_name(_shortened(relative.name)))
    number = 0
    while True:
        mark = hashlib.sha256(f"{number} {printable(relative)}".encode()).hexdigest()[:8]
        yield str(relative.with_name(_shortened(f"{relative.name}~{mark}")))
        number += 1


def _shortened(name: str) -> str:
    raw = name.encode("utf-8", "surrogateescape")
    if len(raw) <= _LONGEST_NAME:
        return name
    mark = hashlib.sha256(raw).hexdigest()[:8]
    return raw[: _LONGEST_NAME - 9].decode("utf-8", "ignore") + f"~{mark}"


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
