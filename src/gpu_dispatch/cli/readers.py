"""The items inside one file, streamed: lines, JSON lines, CSV and Parquet rows. Nothing is read ahead of need.

A row that cannot be read does not end the run: it comes out as a ``BadRow``, in its place, and the next one follows.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

from gpu_dispatch.errors import UsageError

STDIN = "-"

_BOM = b"\xef\xbb\xbf"  # spreadsheets put it in front of UTF-8
_PARQUET_BATCH = 1024  # rows turned into Python objects at once: enough to amortise, little to hold


@dataclass(frozen=True, slots=True)
class BadRow:
    source: str
    """Where it stands: ``"data.jsonl, line 7"``."""
    text: str
    reason: str


def read_lines(path: str) -> Iterator[Any]:
    """Lines of text without their newline; blank ones are left out.

    Bytes that are not UTF-8 survive as surrogates, as in Python's own file names: a line is often a path.
    """
    with _open(path) as file:
        for _, line in _filled_lines(file):
            yield line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")


def read_jsonl(path: str) -> Iterator[Any]:
    with _open(path) as file:
        for number, line in _filled_lines(file):
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
                reason = f"not JSON: {error}" if str(error) else "not JSON"
                yield BadRow(f"{_shown(path)}, line {number}", line.decode("utf-8", "replace").rstrip("\r\n"), reason)


def read_csv(path: str, delimiter: str = ",") -> Iterator[Any]:
    """Rows as dictionaries of text, keyed by the header; values that a short row lacks are None."""
    csv.field_size_limit(sys.maxsize)  # the default of 128 KB refuses documents and base64
    with _open(path) as binary:
        # map, not a generator: it goes on after a line that cannot be decoded
        rows = csv.reader(map(bytes.decode, binary), delimiter=delimiter)
        header: list[str] | None = None
        while True:
            try:
                row = next(rows, None)
            except (csv.Error, UnicodeDecodeError) as error:
                yield BadRow(f"{_shown(path)}, line {rows.line_num + 1}", "", str(error))
                continue
            if row is None:
                return
            if not row:  # a blank line
                continue
            if header is None:
                twice = {name for name in row if row.count(name) > 1}
                if twice:
                    yield BadRow(_shown(path), "", f"two columns are called {min(twice)!r}")
                    return
                header = row
            elif len(row) > len(header):
                reason = f"{len(row)} values for {len(header)} columns"
                yield BadRow(f"{_shown(path)}, line {rows.line_num}", delimiter.join(row), reason)
            else:
                yield dict(zip(header, [*row, *[None] * (len(header) - len(row))], strict=True))


def read_tsv(path: str) -> Iterator[Any]:
    return read_csv(path, delimiter="\t")


def read_parquet(path: str) -> Iterator[Any]:
    """Rows as dictionaries, one record batch in memory at a time."""
    with open_parquet(path) as file:
        for batch in file.iter_batches(batch_size=_PARQUET_BATCH):
            yield from batch.to_pylist()


def open_parquet(path: str) -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(f"reading {path} needs pyarrow: pip install pyarrow") from error
    return parquet.ParquetFile(path)


READERS: dict[str, Callable[[str], Iterator[Any]]] = {
    "lines": read_lines,
    "jsonl": read_jsonl,
    "csv": read_csv,
    "tsv": read_tsv,
    "parquet": read_parquet,
}


def read_file(path: str, form: str) -> Iterator[Any]:
    """The items of one file; a file that cannot be read (any further) ends in a BadRow."""
    try:
        yield from READERS[form](path)
    except UsageError:
        raise
    except (OSError, ValueError) as error:  # ValueError: pyarrow's errors about what is not Parquet
        if isinstance(error, OSError) and error.strerror:
            yield BadRow(_shown(path), "", error.strerror)
        else:
            yield BadRow(_shown(path), "", f"cannot be read as {form}: {error}")


def take_field(items: Iterable[Any], name: str) -> Iterator[Any]:
    """Of each row, one field."""
    for row in items:
        if isinstance(row, BadRow):
            yield row
        elif isinstance(row, dict) and name in row:
            yield row[name]
        else:
            has = f"its fields are: {', '.join(map(str, row))}" if isinstance(row, dict) else "it is not a row"
            yield BadRow("--field", f"{row!r:.200}", f"an item has no field {name!r}; {has}")


def _open(path: str) -> BufferedReader:
    is_stdin = path == STDIN
    file = open(0 if is_stdin else path, "rb", closefd=not is_stdin)  # noqa: SIM115 -- the caller's
    if file.peek(len(_BOM)).startswith(_BOM):
        file.read(len(_BOM))
    return file


def _filled_lines(file: BufferedReader) -> Iterator[tuple[int, bytes]]:
    return ((number, line) for number, line in enumerate(file, 1) if line.strip())


def _shown(path: str) -> str:
    return "stdin" if path == STDIN else path
