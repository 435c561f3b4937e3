"""From the files of a folder to the tasks of a run: named, known to be undone, the longest first."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from gpu_dispatch.transcription.audio import AUDIO_SUFFIXES, probe_duration
from gpu_dispatch.transcription.job import AudioFile, TranscriptionJob
from gpu_dispatch.transcription.naming import OutputNames, crowded_stems, stem_of
from gpu_dispatch.transcription.record import holds, printable
from gpu_dispatch.transcription.windows import WINDOW_S
from gpu_dispatch.transcription.worker import is_long, write_outputs

_PROBES = 8  # threads; a probe waits for the disk more than it computes
_BYTES_PER_SECOND = 16_000  # of compressed speech, for files that do not tell their length


@dataclass(frozen=True, slots=True)
class Workload:
    todo: tuple[AudioFile, ...]
    """The longest first."""
    done: tuple[AudioFile, ...]
    """Transcribed by an earlier run with the same settings."""


def plan_workload(
    files: Sequence[Path], input_dir: Path, job: TranscriptionJob, *, overwrite: bool = False, checksum: bool = False
) -> Workload:
    """Formats that are missing for a file that is done are written here and now: its record has all they need."""
    output_dir = Path(job.output_dir)
    names = OutputNames(output_dir, files)
    # Neighbours that this run leaves out count too: the next one may take them in, and a name must stay.
    crowded = crowded_stems(path.relative_to(input_dir) for path in _with_neighbours(files))
    todo, done = [], []
    for path in sorted(files):
        relative = path.relative_to(input_dir)
        claim = names.claim(relative, crowded=stem_of(relative) in crowded)
        file = AudioFile(str(path), printable(relative), claim.stem)
        record = None if overwrite else claim.record
        if record is not None and holds(record, path, job.settings_key, checksum=checksum):
            write_outputs(record, output_dir, claim.stem, job.formats, only_missing=True)
            done.append(file)
        else:
            todo.append(file)
    return Workload(tuple(longest_first(todo)), tuple(done))


def files_per_batch(files: Sequence[AudioFile], workers: int, windows: int) -> int:
    """How many files a worker may hold for one call of the model, which takes ``windows``.

    Few enough that every worker gets some, and that files which fill a call by themselves are not decoded by the dozen
    in advance. Long ones do not count: they go alone, and are decoded while they are transcribed.
    """
    if not files:
        return 1
    counted = [file for file in files if not is_long(file)] or files
    average = sum(math.ceil(_expected_s(file) / WINDOW_S) for file in counted) / len(counted)
    fair = math.ceil(len(files) / (2 * workers))
    return max(1, min(windows, fair, round(windows / max(1.0, average))))


def longest_first(files: Iterable[AudioFile]) -> list[AudioFile]:
    """Probe the durations and sort: a long file that is begun last keeps one GPU busy while the others are idle."""
    with ThreadPoolExecutor(_PROBES, thread_name_prefix="gpu-dispatch-probe") as pool:
        probed = list(pool.map(lambda file: replace(file, duration_s=probe_duration(Path(file.path))), files))
    return sorted(probed, key=lambda file: (-_expected_s(file), file.name))


def _expected_s(file: AudioFile) -> float:
    if file.duration_s is not None:
        return file.duration_s
    try:
        return os.stat(file.path).st_size / _BYTES_PER_SECOND
    except OSError:
        return 0.0


def _with_neighbours(files: Sequence[Path]) -> set[Path]:
    found = set(files)
    for folder in {path.parent for path in files}:
        with os.scandir(folder) as entries:
            found.update(folder / e.name for e in entries if Path(e.name).suffix.lower() in AUDIO_SUFFIXES)
    return found
