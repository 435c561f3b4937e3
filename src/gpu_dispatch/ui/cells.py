"""What panels are made of: lines of styled cells that fit a width exactly, and frames around them.

    Cell   (text, style name)
    Line   cells side by side
    Block  lines under each other; Rich prints it, a terminal region draws it, a notebook shows it as HTML

Rich's own Table and Panel would do, at some fifteen times the cost (10 ms a frame for eight GPUs, against 0.6): a frame
is drawn four times a second in the process that dispatches, and rendering holds the interpreter's lock. Here every
width is known beforehand, so no line can be too long, and nothing has to be measured twice.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from functools import lru_cache

from rich.cells import cell_len, set_cell_size
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

Cell = tuple[str, str]
Line = list[Cell]

STYLES = {
    "": Style.null(),
    "dim": Style(dim=True),
    "bold": Style(bold=True),
    "frame": Style(color="bright_black"),
    "title": Style(bold=True, color="cyan"),
    "good": Style(color="green"),
    "busy": Style(color="green", bold=True),
    "quiet": Style(color="cyan"),
    "done": Style(color="blue"),
    "starting": Style(color="yellow"),
    "warn": Style(color="yellow", bold=True),
    "bad": Style(color="red", bold=True),
    "again": Style(color="magenta"),
    "spark": Style(color="cyan"),
}

# For terminals whose encoding has no such characters.
_ASCII = str.maketrans("╭╮╰╯─│━▁▂▃▄▅▆▇█…–·×µ", "++++-|=_.:-=+*#.-.xu")


def width_of(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly ``width`` cells: padded, or cut with an ellipsis."""
    have = width_of(text)
    if have == width:
        return text
    if have < width:
        return " " * (width - have) + text if right else text + " " * (width - have)
    if width <= 0:
        return ""
    return set_cell_size(text, width - 1) + "…"


def fit_line(cells: Iterable[Cell], width: int) -> Line:
    """The cells in exactly ``width``: what does not fit is cut, what is missing is blank."""
    line: Line = []
    left = width
    for text, style in cells:
        needed = width_of(text)
        if needed > left:
            if left > 0:
                line.append((fit(text, left), style))
            return line
        line.append((text, style))
        left -= needed
    if left:
        line.append((" " * left, ""))
    return line


def flow(chips: Sequence[Line], width: int, gap: str = "   ") -> list[Line]:
    """Chips (a few cells that belong together) set like words: as many to a line as fit."""
    lines: list[Line] = []
    used = 0
    for chip in chips:
        needed = sum(width_of(text) for text, _ in chip)
        if lines and used + len(gap) + needed <= width:
            lines[-1].append((gap, ""))
            lines[-1].extend(chip)
            used += len(gap) + needed
        else:
            lines.append(list(chip))
            used = needed
    return [fit_line(line, width) for line in lines]


def boxed(title: str, lines: Sequence[Line], width: int, *, aside: str = "", title_style: str = "title") -> list[Line]:
    """The lines in a box of ``width``; they must have been made for ``inner_width(width)``."""
    label = fit(f" {title} ", min(width_of(title) + 2, width - 4))
    room = width - 4 - width_of(label)
    tail = f" {aside} " if aside and width_of(aside) + 3 <= room else ""
    rule = "─" * (room - width_of(tail))
    top: Line = [("╭─", "frame"), (label, title_style), (rule, "frame"), (tail, "bold"), ("─╮", "frame")]
    bottom: Line = [("╰" + "─" * (width - 2) + "╯", "frame")]
    side: Cell = ("│ ", "frame")
    return [top, *([side, *fit_line(line, width - 4), (" │", "frame")] for line in lines), bottom]


def headed(title: str, lines: Sequence[Line], width: int, *, aside: str = "", title_style: str = "title") -> list[Line]:
    """The lines under a title, without a box: for small terminals and for text that goes to a file."""
    label = fit(title, min(width_of(title), width))
    tail = f"  {aside}" if aside and width_of(label) + width_of(aside) + 2 <= width else ""
    return [fit_line([(label, title_style), (tail, "bold")], width), *(fit_line(line, width) for line in lines)]


def inner_width(width: int) -> int:
    return width - 4


class Palette:
    """How a given output writes styled cells: its colours, and whether it has more than ASCII."""

    def __init__(self, color_system: ColorSystem | None, *, no_color: bool = False, ascii_only: bool = False) -> None:
        self._ascii_only = ascii_only
        self._around: dict[str, tuple[str, str]] = {}
        for name, style in STYLES.items():
            drawn = style.without_color if no_color else style
            before, _, after = drawn.render("\0", color_system=color_system).partition("\0")
            self._around[name] = (before, after)

    @classmethod
    def of(cls, console: Console) -> Palette:
        system = COLOR_SYSTEMS[console.color_system] if console.color_system else None
        return cls(system, no_color=console.no_color, ascii_only=console.options.ascii_only)

    def write(self, line: Line) -> str:
        parts: list[str] = []
        for text, style in line:
            before, after = self._around[style]
            parts += (before, ascii_text(text) if self._ascii_only else text, after)
        return "".join(parts)


def ascii_text(text: str) -> str:
    return text if text.isascii() else text.translate(_ASCII).encode("ascii", "replace").decode("ascii")


@lru_cache(maxsize=64)
def _css(style: str) -> str:
    return STYLES[style].get_html_style(DEFAULT_TERMINAL_THEME)


class Block:
    """Lines of one width, ready to be shown anywhere."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines

    def text(self) -> str:
        return "\n".join("".join(text for text, _ in line).rstrip() for line in self.lines)

    def html(self) -> str:
        spans = (
            "".join(
                f'<span style="{_css(style)}">{html.escape(text)}</span>' if style else html.escape(text)
                for text, style in line
            )
            for line in self.lines
        )
        return '<pre style="line-height:1.2;white-space:pre;overflow-x:auto">' + "\n".join(spans) + "</pre>"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.lines:
            for text, style in line:
                yield Segment(ascii_text(text) if options.ascii_only else text, STYLES[style])
            yield Segment.line()
