"""The region against a terminal that wraps, scrolls and rewraps: nothing torn, nothing lost, everything restored."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_terminal import TinyTerminal

from gpu_dispatch.ui.region import Region


def frame(name: str, width: int, lines: int) -> list[str]:
    return [f"{name}{row}".ljust(width, ".") for row in range(lines)]


def opened(width: int = 20, height: int = 8) -> tuple[TinyTerminal, Region]:
    terminal = TinyTerminal(width, height)
    terminal.write("$ python job.py\r\n")
    region = Region(terminal)  # type: ignore[arg-type]
    region.open()
    return terminal, region


def test_frames_replace_each_other_in_place() -> None:
    terminal, region = opened()
    for name in "abc":
        region.draw(frame(name, 20, 3), (20, 8))
    assert terminal.screen() == ["$ python job.py", *frame("c", 20, 3)]


def test_a_frame_is_one_write() -> None:
    terminal, region = opened()
    before = terminal.writes
    region.draw(frame("a", 20, 3), (20, 8), above="hello\n")
    assert terminal.writes == before + 1


def test_printed_text_scrolls_by_above_and_may_wrap() -> None:
    terminal, region = opened()
    region.draw(frame("a", 20, 2), (20, 8))
    region.draw(frame("b", 20, 2), (20, 8), above="x" * 25 + "\n")
    assert terminal.screen() == ["$ python job.py", "x" * 20, "x" * 5, *frame("b", 20, 2)]


def test_a_frame_that_gets_shorter_leaves_nothing_behind() -> None:
    terminal, region = opened()
    region.draw(frame("a", 20, 5), (20, 8))
    region.draw(frame("b", 20, 2), (20, 8))
    region.draw(frame("c", 20, 3), (20, 8))
    assert terminal.screen() == ["$ python job.py", *frame("c", 20, 3)]


def test_a_narrower_terminal_rewraps_the_old_frame_and_nothing_of_it_stays() -> None:
    terminal, region = opened(20, 12)
    region.draw(frame("a", 20, 4), (20, 12))
    terminal.resize(11, 12)
    region.draw(frame("b", 11, 4), (11, 12))
    assert terminal.screen() == ["$ python jo", "b.py", *frame("b", 11, 4)]


def test_a_wider_and_a_lower_terminal() -> None:
    terminal, region = opened(20, 8)
    region.draw(frame("a", 20, 7), (20, 8))
    terminal.resize(30, 4)
    region.draw(frame("b", 30, 3), (30, 4))
    assert terminal.screen() == frame("b", 30, 3)


def test_a_frame_that_scrolled_away_when_the_terminal_shrank_does_not_come_back_when_it_grows() -> None:
    terminal, region = opened(20, 12)
    region.draw(frame("a", 20, 11), (20, 12))
    terminal.resize(9, 5)
    region.draw(frame("b", 9, 4), (9, 5))
    assert terminal.history
    terminal.resize(40, 30)
    region.draw(frame("c", 40, 11), (40, 30))
    assert terminal.screen() == ["$ python job.py", *frame("c", 40, 11)]


def test_what_was_typed_over_the_last_line_is_repaired() -> None:
    terminal, region = opened()
    region.draw(frame("a", 20, 3), (20, 8))
    terminal.write("^C")  # the terminal's echo of Ctrl-C, at the cursor
    region.draw(frame("a", 20, 3), (20, 8))
    assert terminal.screen() == ["$ python job.py", *frame("a", 20, 3)]


def test_foreign_text_over_the_region_is_repaired_in_a_while() -> None:
    terminal, region = opened()
    region.draw(frame("a", 20, 3), (20, 8))
    terminal.rows[terminal.top + 2] = list("garbage")
    for _ in range(9):
        region.draw(frame("a", 20, 3), (20, 8))
    assert terminal.screen() == ["$ python job.py", *frame("a", 20, 3)]


def test_closing_restores_the_terminal_and_keeps_what_was_printed() -> None:
    terminal, region = opened()
    assert not terminal.cursor_visible
    region.draw(frame("a", 20, 3), (20, 8))
    region.close(above="last words\r\n")
    region.close()
    assert terminal.screen() == ["$ python job.py", "last words", ""]
    assert terminal.cursor_visible
    assert terminal.wraps


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("draw"), st.integers(1, 7), st.sampled_from(["", "text\r\n", "long " * 7 + "\r\n"])),
            st.tuples(st.just("resize"), st.integers(5, 40), st.integers(4, 14)),
        ),
        max_size=12,
    )
)
def test_after_any_history_the_screen_ends_with_exactly_the_frame(steps: list[tuple[str, int, object]]) -> None:
    terminal, region = opened(20, 8)
    size = (20, 8)
    region.draw(frame("z", 20, 1), size)
    buried = False  # a frame has scrolled out of reach, and then somebody printed something below it
    for number, (kind, first, second) in enumerate(steps):
        if kind == "resize":
            size = (first, int(second))  # type: ignore[call-overload]
            terminal.resize(*size)
        lines = frame(f"{number}:", size[0], min(first, size[1] - 1) if kind == "draw" else 3)
        above = str(second) if kind == "draw" else ""
        region.draw(lines, size, above=above)
        assert terminal.screen()[-len(lines) :] == lines
        buried = buried or (above != "" and any("..." in line for line in terminal.history))
        remains = [line for line in terminal.screen()[: -len(lines)] if re.match(r"\d+:\d+\.", line)]
        # Of a line that was half in sight when the terminal shrank, the other half cannot be told from text.
        resizes = sum(kind == "resize" for kind, _, _ in steps[: number + 1])
        assert buried or len(remains) <= resizes, "an old frame stayed"
    region.close()
    assert terminal.cursor_visible
