"""Foreign text is harmless on the screen; numbers keep to their width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dispatch.ui.formatting import clock, duration, gigabytes, percent, rate, short_count, size
from gpu_dispatch.ui.sanitise import last_overwritten, one_line, scrollable
from gpu_dispatch.ui.snapshot import last_words
from gpu_dispatch.ui.sparkline import progress_bar, sparkline


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;owned title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;bWFsaWNpb3Vz", ""),  # clipboard write that never ends
        ("\x1bPq#0;2;0;0;0\x1b\\sixel", "sixel"),
        ("\x9b2Jcleared", "cleared"),
        ("a\x1b[2;5Hb\x1b(0c\x1bMd", "abcd"),
        ("cut off \x1b[3", "cut off "),
        ("bell\x07 back\x08space nul\x00", "bell backspace nul"),
        ("tab\there", "tab here"),
        ("right \u202eto left", "right to left"),
        ("zero\u200bwidth\u2066", "zerowidth"),
        ("heart \u2764\ufe0f", "heart \u2764"),
        ("[bold red]markup[/] stays", "[bold red]markup[/] stays"),
        ("two\r\nlines\nhere", "two lines here"),
        ("日本語", "日本語"),
        ("line\u2028separator", "lineseparator"),
    ],
)
def test_hostile_text_cannot_move_the_cursor_or_hide(hostile: str, shown: str) -> None:
    assert one_line(hostile) == shown


@given(st.text())
def test_whatever_a_worker_prints_is_printable_afterwards(text: str) -> None:
    for cleaned in (one_line(text), last_overwritten(text)):
        assert all(c.isprintable() or c == "\u3000" or c.isspace() for c in cleaned), cleaned
        assert not set(cleaned) & set(map(chr, [*range(32), *range(127, 160)]))


def test_printed_text_keeps_its_colours_and_nothing_that_moves_the_cursor() -> None:
    text = "\x1b[1;31mred\x1b[0m\ttab\x1b[2J\x1b]0;title\x07\x0b\x0c\x85\x9b3Aend\r\n"
    assert scrollable(text) == "\x1b[1;31mred\x1b[0m\ttabend\r\n"
    assert scrollable("\x1b]52;c;never ended\nthe next line\n") == "\nthe next line\n"


def test_a_line_of_a_megabyte_is_cut_before_it_is_looked_at() -> None:
    assert len(one_line("x" * 1_000_000)) <= 2000


def test_a_progress_bar_in_a_worker_shows_its_last_state() -> None:
    assert last_overwritten("  1%|\r 50%|█\r100%|███\r") == "100%|███"


def test_last_words_name_the_exception_of_a_traceback() -> None:
    assert last_words("Traceback (most recent call last):\n  File x\nRuntimeError: no GPU\n") == "RuntimeError: no GPU"
    assert last_words("worker 3 was killed by SIGKILL\nlast output:\nfoo") == "worker 3 was killed by SIGKILL"
    assert last_words("") == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.00042, "420µs"),
        (0.0042, "4.2ms"),
        (0.0999, "100ms"),
        (0.9996, "1.0s"),
        (9.96, "10s"),
        (59.7, "1m00s"),
        (3599.6, "1h00m"),
        (45_300, "12h35m"),
        (86_399.9, "1d00h"),
        (1e9, "11574d"),
    ],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@given(st.floats(min_value=0, max_value=1e10))
def test_durations_keep_to_their_column(seconds: float) -> None:
    assert len(duration(seconds)) <= 7
    assert seconds > 86400 * 9999 or len(duration(seconds)) <= 6


@given(st.integers(min_value=0, max_value=10**14))
def test_short_counts_keep_to_their_column(number: int) -> None:
    assert len(short_count(number)) <= 5


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(None, "–"), (0, "0/s"), (52_310.4, "52,310/s"), (12.345, "12.3/s"), (0.42, "0.42/s"), (0.01, "0.6/min")],
)
def test_rate(per_second: float | None, text: str) -> None:
    assert rate(per_second) == text


def test_a_share_is_all_only_when_it_is_all() -> None:
    assert [percent(x) for x in (None, 0, 0.004, 0.5, 0.999, 1.0)] == ["–", "0%", "0%", "50%", "99%", "100%"]
    assert progress_bar(0.9999, 10) == ("━" * 9, "─")
    assert progress_bar(1.0, 10) == ("━" * 10, "")
    assert progress_bar(0.5, 0) == ("", "")


def test_sizes_and_clocks() -> None:
    assert [size(x) for x in (None, 0, 999, 84_300_000, 1_240_000_000)] == ["–", "0 B", "999 B", "84 MB", "1.2 GB"]
    assert [clock(x) for x in (None, 0, 83.9, 90_061)] == ["–", "0:00:00", "0:01:23", "1d 1:01:01"]
    assert gigabytes(12.3 * 2**30, 80 * 2**30) == "12.3/80G"


def test_a_trickle_does_not_look_like_standstill() -> None:
    assert sparkline([0, 1, 1000], 10) == "▁▂█"
    assert sparkline([0, 0], 10) == "▁▁"
    assert sparkline([99, 0, 1, 2, 4], 4) == "▁▃▅█"
    assert sparkline([1, 2], 0) == ""
