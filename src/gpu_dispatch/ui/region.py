"""The region: lines at the bottom of a terminal that are redrawn in place, while text scrolls by above them.

    draw(lines, above=text)  ──►  text that scrolls by      (what the user's callbacks print)
                                  ╭─ the region ─╮          (rewritten where it changed; all in one write)

Why not ``rich.live.Live``: it erases every line before it draws it anew, which flickers when the terminal gets a
frame in two pieces; it loses count of its rows when a narrower terminal rewraps them; and it draws a whole frame
for every ``print``. Here lines are overwritten without being erased, rewrapped rows are counted, and printed text
waits for the next frame.

Guarantees
- The cursor stands in the region's last line between frames; ``close`` erases the region and restores the terminal.
- Automatic wrapping is off while the region is drawn, so that a line can never take two rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_WRAP_OFF, _WRAP_ON = "\x1b[?7l", "\x1b[?7h"
_PLAIN = "\x1b[0m"
_ERASE_LINE = "\x1b[2K"
_ERASE_BELOW = "\x1b[J"
# Terminals that know it show the frame at once; the others ignore it.
_BEGIN_FRAME, _END_FRAME = "\x1b[?2026h", "\x1b[?2026l"
_HEAL_EVERY = 8  # frames between full ones: foreign writes on the terminal are repaired within two seconds


class Region:
    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._drawn: list[str] = []
        self._size = (0, 0)
        self._scrolled_away: list[tuple[int, int]] = []  # (lines, their width) of old frames that are out of reach
        self._frames = 0
        self._is_open = False

    def open(self) -> None:
        self._is_open = True
        self._write(_HIDE_CURSOR + _WRAP_OFF)

    def draw(self, lines: Sequence[str], size: tuple[int, int], above: str = "") -> None:
        """Show the lines, made for ``size`` (width, height), under the text ``above``, which is whole lines."""
        parts = [_BEGIN_FRAME, _PLAIN]
        if above or (self._drawn and size != self._size):
            parts.append(self._erased(size))
            if above:
                self._scrolled_away = []  # from now on, what stands above is somebody's text
                parts += (_WRAP_ON, above, _PLAIN, _WRAP_OFF, "\r")
        parts.append(self._frame(lines))
        parts.append(_END_FRAME)
        self._drawn, self._size = list(lines), size
        self._frames += 1
        self._write("".join(parts))

    def close(self, above: str = "") -> None:
        """Erase the region and give the terminal back as it was; safe to call twice."""
        if self._is_open:
            self._is_open = False
            self._write(self._erased(self._size) + _PLAIN + _WRAP_ON + _SHOW_CURSOR + above)

    def _frame(self, lines: Sequence[str]) -> str:
        old = self._drawn
        if not old:
            return "\r\n".join(lines)
        whole = self._frames % _HEAL_EVERY == 0
        parts = ["\r", _up(len(old) - 1)]
        for row, line in enumerate(lines):
            # The cursor rests in the last line, where a typed Ctrl-C is echoed: that one is always rewritten.
            if whole or row >= len(old) - 1 or line != old[row]:
                parts.append(line)
            parts.append("\r\n" if row < len(lines) - 1 else "")
        if len(lines) < len(old):
            parts += ("\r\n", _ERASE_BELOW, _up(1))
        return "".join(parts)

    def _erased(self, size: tuple[int, int]) -> str:
        """Erase the region, with whatever is in sight of older ones, and go to where its first line was."""
        if not self._drawn:
            return "\r"
        remains = [*self._scrolled_away, (len(self._drawn), max(1, self._size[0]))]
        width, height = max(1, size[0]), max(1, size[1])
        # A narrower terminal has rewrapped the lines; a higher one has brought back those that had scrolled away.
        rows = sum(lines * -(-old_width // width) for lines, old_width in remains)
        beyond = max(0, rows - height)
        self._scrolled_away = _oldest(remains, beyond, width)
        self._drawn = []
        # Row by row: when a whole screen is erased at once, tmux keeps it as history, and every frame would stay there.
        return "\r" + _ERASE_LINE + (_up(1) + _ERASE_LINE) * (rows - 1)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _oldest(remains: Sequence[tuple[int, int]], rows: int, width: int) -> list[tuple[int, int]]:
    """Those of the lines, the oldest first, that fill so many rows of that width.

    A line of which a piece is still in sight does not count: what is drawn there next continues it, for the terminal.
    """
    found: list[tuple[int, int]] = []
    for lines, old_width in remains:
        rows_each = -(-old_width // width)
        taken = min(lines, rows // rows_each)
        found.append((taken, old_width))
        rows -= taken * rows_each
        if taken < lines:
            break
    return found


def _up(rows: int) -> str:
    return f"\x1b[{rows}A" if rows > 0 else ""
