"""Which files there are, how much work they are, and in what order it is best done."""

from __future__ import annotations

import fnmatch
import os
import queue
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpu_dispatch.errors import UsageError
from gpu_dispatch.multigpu.strategies import STRATEGIES, Strategy, largest_first
from gpu_dispatch.transcription.audio import AUDIO_SUFFIXES


class ResourceAllocator:
    """``strategy``: ``"size-balanced"``, ``"round-robin"`` or a function like those in strategies.py."""

    def __init__(self, strategy: str | Strategy = "size-balanced") -> None:
        if isinstance(strategy, str) and strategy not in STRATEGIES:
            raise UsageError(f"unknown strategy {strategy!r}; there are: {', '.join(STRATEGIES)}, or give a function")
        self._strategy = STRATEGIES[strategy] if isinstance(strategy, str) else strategy

    def validate_input_dir(self, input_dir: Path | str) -> tuple[bool, str | None]:
        path = Path(input_dir)
        if not path.exists():
            return False, f"{path} does not exist"
        if not path.is_dir():
            return False, f"{path} is not a folder"
        if not os.access(path, os.R_OK | os.X_OK):
            return False, f"{path} cannot be read"
        return True, None

    def discover_files(self, input_dir: Path | str, pattern: str | None = None) -> list[Path]:
        """The files below ``input_dir`` that match, the largest first.

        ``pattern``: ``"*.wav"``, several with commas (``"*.wav,*.mp3"``), or with folders (``"talks/*.mp3"``); upper
        and lower case are the same. ``None``: whatever has the suffix of an audio or video format. Hidden files are
        left out.
        """
        ok, error = self.validate_input_dir(input_dir)
        if not ok:
            raise UsageError(f"the input folder {error}")
        patterns = [each.strip() for each in pattern.split(",") if each.strip()] if pattern is not None else None
        if patterns == []:
            raise UsageError(f"the pattern {pattern!r} is empty; write for example '*.wav'")
        root = Path(input_dir)
        found = [path for path in _visible_files(root) if _matches(path.relative_to(root), patterns)]
        return [path for path, _ in largest_first([(path, _size(path)) for path in found])]

    def distribute_workload(self, files: Sequence[Path | str], num_gpus: int) -> list[list[Path]]:
        """``num_gpus`` lists that hold every file once, by the strategy."""
        _at_least_one("num_gpus", num_gpus)
        sized = [(Path(file), _size(Path(file))) for file in files]
        shares = self._strategy(sized, num_gpus)
        dealt = sorted(str(path) for share in shares for path in share)
        if len(shares) != num_gpus or dealt != sorted(str(path) for path, _ in sized):
            raise UsageError(
                f"the strategy did not deal {len(sized)} files to {num_gpus} shares, each once: {shares!r:.200}"
            )
        return shares

    def create_task_queue(self, files: Sequence[Any], num_workers: int) -> queue.Queue[Any]:
        """A queue of the files, as they come, and one ``None`` per worker, which says that no more will follow.

        An ordinary queue of this process: the workers' processes are fed by the dispatcher, not by it.
        """
        _at_least_one("num_workers", num_workers)
        tasks: queue.Queue[Any] = queue.Queue()
        for file in (*files, *[None] * num_workers):
            tasks.put(file)
        return tasks

    def create_result_queue(self) -> queue.Queue[Any]:
        return queue.Queue()

    def estimate_workload(self, files: Sequence[Path | str]) -> dict[str, Any]:
        """Sizes are bytes."""
        sizes = [_size(Path(file)) for file in files]
        return {
            "file_count": len(sizes),
            "total_size": sum(sizes),
            "average_size": sum(sizes) / len(sizes) if sizes else 0.0,
            "largest_size": max(sizes, default=0),
            "smallest_size": min(sizes, default=0),
        }


def _visible_files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            path = Path(folder, name)
            if not name.startswith(".") and path.is_file():  # not a socket, nor a link that leads nowhere
                yield path


def _matches(relative: Path, patterns: Sequence[str] | None) -> bool:
    if patterns is None:
        return relative.suffix.lower() in AUDIO_SUFFIXES
    name, whole = relative.name.casefold(), relative.as_posix().casefold()
    for pattern in patterns:
        folded = pattern.casefold().removeprefix("./").removeprefix("**/")
        if fnmatch.fnmatchcase(whole if "/" in folded else name, folded):
            return True
    return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # gone since it was found: whoever opens it will say so


def _at_least_one(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name} must be a whole number of at least 1, got {value!r}")
