"""A terminal small enough to be trusted: knows just what a Region writes, wraps, scrolls, and rewraps on a resize."""

from __future__ import annotations

import re

from rich.cells import cell_len

_TOKEN = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])|\r|\n|[^\x1b\r\n]")


class TinyTerminal:
    """A file to write to. ``screen()`` is what a user sees, ``history`` what has scrolled away."""

    encoding = "utf-8"

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.rows: list[list[str]] = [[]]  # of all times; those from ``top`` on are in sight
        self.joined: list[bool] = [False]  # whether a row continues the one above it, having been wrapped
        self.top = 0
        self.row = self.column = 0
        self.wraps = True
        self.cursor_visible = True
        self.writes = 0

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        pass

    def write(self, text: str) -> int:
        self.writes += 1
        position = 0
        for match in _TOKEN.finditer(text):
            assert match.start() == position, f"unknown sequence {text[position : match.start() + 10]!r}"
            position = match.end()
            self._apply(match)
        assert position == len(text), f"unknown sequence {text[position:]!r}"
        return len(text)

    @property
    def history(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.rows[: self.top]]

    def screen(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.rows[self.top : self._used_rows()]]

    def resize(self, width: int, height: int) -> None:
        """As tmux and most others do: lines are wrapped anew, a higher terminal brings back what had scrolled away."""
        if (width, height) == (self.width, self.height):
            return
        used = self._used_rows()
        assert self.row == used - 1, "the region keeps its cursor in its last row"
        logical: list[list[str]] = []
        for row, joined in zip(self.rows[:used], self.joined[:used], strict=True):
            if joined:
                logical[-1] += row
            else:
                logical.append(list(row))
        lines_above = sum(not joined for joined in self.joined[: self.top])
        grown = height - self.height
        self.width, self.height = width, height
        self.rows, self.joined = [], []
        top = 0
        for number, line in enumerate(logical):
            top = len(self.rows) if number == lines_above else top
            pieces = [line[i : i + width] for i in range(0, len(line), width)] or [[]]
            self.rows += pieces
            self.joined += [False] + [True] * (len(pieces) - 1)
        self.row = len(self.rows) - 1
        self.column = min(self.column, width - 1)
        self.top = max(0, top - max(0, grown), len(self.rows) - height)

    def _used_rows(self) -> int:
        """Up to the cursor, and below it whatever is not blank."""
        return max(self.row, *(number for number, row in enumerate(self.rows) if row), 0) + 1

    def _apply(self, match: re.Match[str]) -> None:
        token = match.group()
        if token == "\r":
            self.column = 0
        elif token == "\n":
            self._down()
        elif match.group(3):
            self._control(match.group(1), match.group(2), match.group(3))
        else:
            self._put(token)

    def _control(self, private: str, number: str, letter: str) -> None:
        if private:
            if number == "7":
                self.wraps = letter == "h"
            elif number == "25":
                self.cursor_visible = letter == "h"
            else:
                assert number == "2026"
        elif letter == "A":
            self.row = max(self.top, self.row - int(number or 1))
        elif letter == "K":
            assert number == "2"
            self.rows[self.row] = []
            if self.row + 1 < len(self.joined):
                self.joined[self.row + 1] = False
        elif letter == "J":
            assert (self.row, self.column) != (self.top, 0), "tmux would keep the whole screen as history"
            del self.rows[self.row + 1 :], self.joined[self.row + 1 :]
            del self.rows[self.row][self.column :]
        else:
            assert letter == "m", f"unknown sequence {letter!r}"

    def _put(self, character: str) -> None:
        assert character.isprintable(), repr(character)
        size = cell_len(character)
        if size == 0:
            return
        if self.column + size > self.width:
            if not self.wraps:
                self.column = self.width - size
            else:
                self.column = 0
                self._down()
                self.joined[self.row] = True
        row = self.rows[self.row]
        row += [" "] * (self.column + size - len(row))
        row[self.column : self.column + size] = [character] + [""] * (size - 1)
        self.column += size

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append([])
            self.joined.append(False)
        self.top = max(self.top, len(self.rows) - self.height)
