"""Transcripts as players, spreadsheets and parsers see them."""

from __future__ import annotations

import csv
import io
import json

import pytest
import srt
import webvtt

from gpu_dispatch.errors import UsageError
from gpu_dispatch.transcription import formats
from gpu_dispatch.transcription.transcript import Segment, Transcript, Word, from_mapping, tidied, to_mapping

AWKWARD = Transcript(
    segments=tidied(
        [
            Segment(0.0, 1.5, " Grüße & <b>Küsse</b>,\n\nsaid she. "),
            Segment(1.5, 2.0, "a --> b"),
            Segment(3599.9996, 3661.25, "1\t2"),
            Segment(360_000.0, 360_001.0, "日本語 🎧"),
        ],
        duration_s=400_000.0,
    ),
    duration_s=400_000.0,
    speech_s=4.0,
    language="de",
)
SILENT = Transcript((), 3.0, 0.0)


def test_srt_parses_with_every_text_and_time_intact():
    cues = list(srt.parse(formats.render_srt(AWKWARD), ignore_errors=False))

    assert [cue.content for cue in cues] == ["Grüße & <b>Küsse</b>, said she.", "a → b", "1 2", "日本語 🎧"]
    assert [cue.start.total_seconds() for cue in cues] == [0.0, 1.5, 3600.0, 360_000.0]
    assert [cue.end.total_seconds() for cue in cues] == [1.5, 2.0, 3661.25, 360_001.0]
    assert [cue.index for cue in cues] == [1, 2, 3, 4]


def test_vtt_parses_and_markup_in_the_speech_is_not_markup():
    cues = list(webvtt.from_buffer(io.StringIO(formats.render_vtt(AWKWARD))))

    assert [(cue.start, cue.end) for cue in cues][:3] == [
        ("00:00:00.000", "00:00:01.500"),
        ("00:00:01.500", "00:00:02.000"),
        ("01:00:00.000", "01:01:01.250"),
    ]
    assert cues[0].raw_text == "Grüße &amp; &lt;b&gt;Küsse&lt;/b&gt;, said she."


def test_tsv_has_one_row_per_segment_in_milliseconds():
    rows = list(csv.reader(io.StringIO(formats.render_tsv(AWKWARD)), delimiter="\t", quoting=csv.QUOTE_NONE))

    assert rows[0] == ["start", "end", "text"]
    assert rows[3] == ["3600000", "3661250", "1 2"]
    assert all(len(row) == 3 for row in rows)


def test_txt_is_one_line_per_segment():
    assert formats.render_txt(AWKWARD).splitlines()[1] == "a --> b"


def test_silence_gives_files_that_are_valid_and_empty():
    assert formats.render_txt(SILENT) == ""
    assert list(srt.parse(formats.render_srt(SILENT))) == []
    assert list(webvtt.from_buffer(io.StringIO(formats.render_vtt(SILENT)))) == []
    assert formats.render_tsv(SILENT) == "start\tend\ttext\n"


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([Segment(2.0, 3.0, "b"), Segment(0.0, 1.0, "a")], [(0.0, 1.0, "a"), (2.0, 3.0, "b")]),
        ([Segment(0.0, 7.0, "beyond the end")], [(0.0, 5.0, "beyond the end")]),
        ([Segment(1.0, 1.0, "no time")], [(1.0, 1.001, "no time")]),
        ([Segment(3.0, 2.0, "backwards")], [(3.0, 3.001, "backwards")]),
        ([Segment(-0.5, 1.0, "before")], [(0.0, 1.0, "before")]),
        ([Segment(0.0, 1.0, "  \n ")], []),
    ],
)
def test_times_that_players_reject_are_put_right(segments, expected):
    assert [(s.start, s.end, s.text) for s in tidied(segments, duration_s=5.0)] == expected


def test_json_gives_back_what_was_put_in():
    transcript = Transcript(
        (Segment(0.0, 1.0, "hi", (Word(0.0, 0.4, " hi", 0.9),), -0.2, 0.1), Segment(1.0, 2.0, "there")),
        duration_s=2.0,
        speech_s=1.5,
        language="en",
        language_probability=0.97,
    )

    assert from_mapping(json.loads(json.dumps(to_mapping(transcript)))) == transcript


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("srt", ("srt", "json")),
        ("vtt, TXT", ("txt", "vtt", "json")),
        (["json"], ("json",)),
        ("all", formats.FORMATS),
    ],
)
def test_formats_are_given_by_name_and_the_record_is_always_among_them(spec, expected):
    assert formats.parse_formats(spec) == expected


@pytest.mark.parametrize("spec", ["docx", "", "srt,,"])
def test_an_unknown_format_is_named(spec):
    with pytest.raises(UsageError, match="unknown format"):
        formats.parse_formats(spec)
