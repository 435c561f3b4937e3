"""Figures as lines for a person. Pure: a dict or a result in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_dispatch.transcription.job import FileResult
from gpu_dispatch.ui.sanitise import one_line

_FAILURES_SHOWN = 20


def progress_line(done: int, total: int, result: FileResult) -> str:
    begin = f"[{done}/{total}] {one_line(result.file)}"
    if not result.ok:
        return f"{begin}: FAILED: {one_line(result.error)}"
    warned = "".join(f" (warning: {one_line(warning)})" for warning in result.warnings)
    how_fast = f"{duration(result.audio_s)} of audio in {result.processing_s:.1f} s on {device(result.gpu_id)}"
    return f"{begin}: {how_fast}{warned}"


def summary_lines(stats: Mapping[str, Any], total_files: int) -> Iterator[str]:
    words = [f"{stats['completed']} of {total_files} files transcribed"]
    for key, word in (("failed", "failed"), ("cancelled", "not finished"), ("skipped", "already done")):
        if stats[key]:
            words.append(f"{stats[key]} {word}")
    yield ", ".join(words)
    if stats["audio_s"]:
        faster = 1 / stats["rtf"] if stats["rtf"] else 0.0
        yield (
            f"audio {duration(stats['audio_s'])} in {duration(stats['wall_s'])}: RTF {stats['rtf']:.3f} "
            f"({faster:.1f} × real time), speed-up against one GPU {stats['speedup']:.2f} ×"
        )
        yield from _table(stats["gpus"])
    for failure in stats["failures"][:_FAILURES_SHOWN]:
        yield f"failed: {one_line(failure['file'])}: {one_line(failure['error'])}"
    if len(stats["failures"]) > _FAILURES_SHOWN:
        yield f"… and {len(stats['failures']) - _FAILURES_SHOWN} more failures"


def _table(gpus: Mapping[Any, Mapping[str, Any]]) -> Iterator[str]:
    rows = [("device", "files", "failed", "audio", "busy", "RTF")]
    rows += [
        (
            device(gpu_id),
            str(share["files"]),
            str(share["failed"]),
            duration(share["audio_s"]),
            f"{share['busy_share']:.0%}",
            f"{share['rtf']:.3f}",
        )
        for gpu_id, share in gpus.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        numbers = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join(("", row[0].ljust(widths[0]), *numbers))


def device(gpu_id: int | str | None) -> str:
    return f"GPU {gpu_id}" if isinstance(gpu_id, int) else one_line(gpu_id)


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{whole:02d} h" if hours else f"{minutes}:{whole:02d} min"
