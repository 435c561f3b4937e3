"""INPUT…: which files, folders, patterns and streams were named, and what their items are.

    named on the command line, or matched by a quoted pattern       --as auto      rows         lines    paths
      .jsonl .ndjson .csv .tsv .parquet                             rows           rows         lines    the path
      .txt                                                          lines          JSON lines   lines    the path
      any other file                                                the path       JSON lines   lines    the path
    a folder: its files, at any depth, by name, not the hidden      their paths    of its data  lines    their paths
    - (stdin)                                                       lines          JSON lines   lines    lines

What a folder holds is data to process, so its files are items; a data file that is *named* is a list of items.
Everything that can be checked is checked by ``find_sources``, before a worker starts; the items come lazily.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gpu_dispatch.cli.readers import STDIN, BadRow, open_parquet, read_file
from gpu_dispatch.errors import UsageError

AS_CHOICES = ("auto", "rows", "lines", "paths")

_DATA_FORMS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}

# A total makes the progress bar and the remaining time possible, but must not delay the start: 16 MB of
# rows and lines are counted by reading them, and folders up to 200,000 files: under half a second each.
_COUNT_BYTES = 16 << 20
_COUNT_FILES = 200_000


@dataclass(frozen=True, slots=True)
class Source:
    where: str
    """A path, a pattern, or ``-``."""
    kind: str
    """``file``, ``folder``, ``pattern`` or ``stdin``."""


@dataclass(frozen=True, slots=True)
class Inputs:
    sources: tuple[Source, ...]
    as_: str = "auto"
    output: str | None = None
    """The file that results are written to: never an item, even when it lies in an input folder."""

    def items(self) -> Iterator[Any]:
        """Every item, and a BadRow for each that could not be read."""
        for source in self.sources:
            if source.kind == "stdin":
                yield from read_file(STDIN, "jsonl" if self.as_ == "rows" else "lines")
            elif source.kind == "file":
                yield from self._items_of(source.where, _form(source.where, self.as_))
            elif source.kind == "pattern":
                for path in sorted(_matches(source.where)):
                    if not self._is_output(path):
                        yield from self._items_of(path, _form(path, self.as_))
            else:
                yield from self._items_in_folder(source.where)

    def count(self) -> int | None:
        """How many items there are, if that can be known at little cost."""
        read = [source.where for source in self.sources if source.kind == "file" and self._is_text(source.where)]
        if sum(map(os.path.getsize, read)) > _COUNT_BYTES:
            return None
        total = 0
        for source in self.sources:
            known = self._count(source)
            if known is None:
                return None
            total += known
        return total

    def _items_of(self, path: str, form: str) -> Iterator[Any]:
        return iter((path,)) if form == "path" else read_file(path, form)

    def _items_in_folder(self, folder: str) -> Iterator[Any]:
        for path in walk(folder):
            if isinstance(path, BadRow):
                yield path
            elif self._is_output(path):
                continue
            elif self.as_ == "rows":
                form = _DATA_FORMS.get(_suffix(path))
                if form is not None:
                    yield from read_file(path, form)
            elif self.as_ == "lines":
                yield from read_file(path, "lines")
            else:
                yield path

    def _is_text(self, path: str) -> bool:
        return _form(path, self.as_) not in ("path", "parquet")

    def _is_output(self, path: str) -> bool:
        if self.output is None or os.path.basename(path) != os.path.basename(self.output):
            return False
        return os.path.realpath(path) == os.path.realpath(self.output)

    def _count(self, source: Source) -> int | None:
        if source.kind == "stdin":
            return None
        if source.kind == "file":
            return _count_file(source.where, _form(source.where, self.as_))
        if self.as_ in ("rows", "lines"):
            return None
        if source.kind == "folder":
            count = sum(1 for _ in islice(self._items_in_folder(source.where), _COUNT_FILES))
            return count if count < _COUNT_FILES else None
        total = 0
        for path in _matches(source.where):
            if self._is_output(path):
                continue
            if _form(path, self.as_) != "path":
                return None
            total += 1
        return total


def find_sources(words: Sequence[str], as_: str = "auto", output: str | None = None) -> Inputs:
    """What the INPUT words name; a word that names nothing is a UsageError."""
    inputs = Inputs(tuple(_source(word) for word in words), as_, output)
    if sum(source.kind == "stdin" for source in inputs.sources) > 1:
        raise UsageError("stdin (-) can be read only once")
    for source in inputs.sources:
        if source.kind == "file" and inputs._is_output(source.where):
            raise UsageError(f"{source.where} is both an input and the output")
        if source.kind == "file" and _form(source.where, as_) == "parquet":
            open_parquet_or_complain(source.where)
    return inputs


def open_parquet_or_complain(path: str) -> None:
    try:
        open_parquet(path).close()
    except UsageError:
        raise
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as Parquet: {error}") from error


def walk(folder: str, inside: tuple[str, ...] = ()) -> Iterator[str | BadRow]:
    """The files of a folder at any depth, in the order of their names; hidden ones are left out.

    Linked folders are followed, except back into one that we are inside of.
    """
    real = os.path.realpath(folder)
    if real in inside:
        return
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, entry.is_dir()) for entry in entries if not entry.name.startswith("."))
    except OSError as error:
        yield BadRow(folder, "", error.strerror or str(error))
        return
    for name, is_folder in found:
        path = os.path.join(folder, name)
        if is_folder:
            yield from walk(path, (*inside, real))
        else:
            yield path


def peek(items: Iterable[Any]) -> Iterator[Any]:
    """The same items, the first of them read already: an empty or unreadable input is a UsageError now."""
    rest = iter(items)
    try:
        first = next(rest)
    except StopIteration:
        raise UsageError("the input is empty: there is nothing to run") from None
    if isinstance(first, BadRow):
        raise UsageError(f"{first.source}: {first.reason}")
    return _again(first, rest)


def _again(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _source(word: str) -> Source:
    if word == STDIN:
        return Source(word, "stdin")
    if os.path.isdir(word):
        return Source(word, "folder")
    if os.path.exists(word):
        if not os.access(word, os.R_OK):
            raise UsageError(f"{word}: permission denied")
        return Source(word, "file")
    if glob.has_magic(word):
        if next(_matches(word), None) is None:
            raise UsageError(f"no file matches {word}")
        return Source(word, "pattern")
    if "://" in word:
        raise UsageError(
            f"{word} is not a file; to use addresses as items, give them as lines: … | gpu-dispatch run … -"
        )
    raise UsageError(f"there is no file or folder {word}")


def _matches(pattern: str) -> Iterator[str]:
    return (path for path in glob.iglob(pattern, recursive=True) if os.path.isfile(path))


def _form(path: str, as_: str) -> str:
    """How a file that was named, or matched, is taken: ``path`` or the name of a reader."""
    if as_ == "paths":
        return "path"
    if as_ == "lines":
        return "lines"
    if as_ == "rows":
        return _DATA_FORMS.get(_suffix(path), "jsonl")
    return "lines" if _suffix(path) == ".txt" else _DATA_FORMS.get(_suffix(path), "path")


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def _count_file(path: str, form: str) -> int | None:
    if form == "path":
        return 1
    if not os.path.isfile(path):  # a pipe can be read only once
        return None
    if form == "parquet":
        with open_parquet(path) as file:
            return int(file.metadata.num_rows)
    return sum(1 for item in read_file(path, form) if not isinstance(item, BadRow))
