"""A transcript as text, SubRip, WebVTT or tab-separated values. Pure: strings out, nothing is written.

``json`` is a format too, but more than a rendering: it records what was transcribed and how (record.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpu_dispatch.errors import UsageError
from gpu_dispatch.transcription.transcript import Segment, Transcript


def render_txt(transcript: Transcript) -> str:
    """One line per segment."""
    return "".join(f"{segment.text}\n" for segment in transcript.segments)


def render_srt(transcript: Transcript) -> str:
    return "\n".join(
        f"{number}\n{_clock(segment.start, ',')} --> {_clock(segment.end, ',')}\n{_cue_text(segment)}\n"
        for number, segment in enumerate(transcript.segments, start=1)
    )


def render_vtt(transcript: Transcript) -> str:
    cues = (
        f"\n{_clock(segment.start, '.')} --> {_clock(segment.end, '.')}\n{_escaped(_cue_text(segment))}\n"
        for segment in transcript.segments
    )
    return "WEBVTT\n" + "".join(cues)


def render_tsv(transcript: Transcript) -> str:
    """Milliseconds, as Whisper's own command writes them; the text of a segment holds no tabs and no line breaks."""
    rows = (f"{_milliseconds(s.start)}\t{_milliseconds(s.end)}\t{s.text}\n" for s in transcript.segments)
    return "start\tend\ttext\n" + "".join(rows)


RENDERERS: dict[str, Callable[[Transcript], str]] = {
    "txt": render_txt,
    "srt": render_srt,
    "vtt": render_vtt,
    "tsv": render_tsv,
}
FORMATS = ("txt", "srt", "vtt", "tsv", "json")
DEFAULT_FORMATS = ("txt", "srt", "json")


def parse_formats(spec: str | Iterable[str]) -> tuple[str, ...]:
    """``"srt,vtt"``, ``["srt", "vtt"]`` or ``"all"``: in our order, each once, and json always.

    json is not a choice: it is the record by which the next run knows that a file is done.
    """
    names = spec.split(",") if isinstance(spec, str) else list(spec)
    wanted = {name.strip().lower().removeprefix(".") for name in names}
    if wanted == {"all"}:
        return FORMATS
    unknown = sorted(wanted - set(FORMATS))
    if unknown:
        raise UsageError(f"unknown format {unknown[0]!r}; there are: {', '.join(FORMATS)}, or all")
    return tuple(name for name in FORMATS if name in wanted or name == "json")


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _clock(seconds: float, point: str) -> str:
    rest, milliseconds = divmod(_milliseconds(seconds), 1000)
    minutes, whole_seconds = divmod(rest, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{whole_seconds:02d}{point}{milliseconds:03d}"


def _cue_text(segment: Segment) -> str:
    # An arrow inside a text would read as a line of times.
    return segment.text.replace("-->", "→")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
