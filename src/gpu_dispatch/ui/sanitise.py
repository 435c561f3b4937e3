"""Foreign text made safe to show: worker output, exception messages, device names, paths.

Whatever a worker prints or raises ends up here before it reaches the terminal. Escape sequences could move the
cursor, rewrite the window's title or the clipboard; control and bidirectional characters could tear or disguise
a line. Rich markup needs no escaping: panels are made of plain cells, and nothing here parses markup.
"""

from __future__ import annotations

import re
import unicodedata

_LONGEST = 2000  # characters looked at: wider than any terminal, and a line of a megabyte costs no time

_ESCAPES = re.compile(
    r"\x1b[\]PX^_][^\n]*?(?:\x07|\x1b\\|\x9c|(?=\n)|\Z)"  # OSC, DCS, SOS, PM, APC: up to their end, or the line's
    r"|\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI; the final byte may have been cut off
    r"|\x9b[0-?]*[ -/]*[@-~]?"  # CSI as one byte
    r"|\x1b[ -/]*[0-~]?"  # everything shorter
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
# Everything that is no character, except the line break, the tab, the carriage return and the escape of a colour.
_MOVING = dict.fromkeys(code for code in [*range(32), *range(127, 160)] if chr(code) not in "\n\t\r\x1b")
_DROPPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def one_line(text: object) -> str:
    """The text as a single line without escapes or control characters; line breaks become spaces."""
    return _printable(str(text)[:_LONGEST].replace("\r\n", "\n").replace("\n", " ").replace("\r", " "))


def last_overwritten(text: str) -> str:
    """A line as a terminal would show it in the end: what follows its last carriage return.

    Progress bars in workers rewrite their line that way thousands of times without ever ending it.
    """
    kept = text.rstrip("\r\n")
    return _printable(kept[kept.rfind("\r") + 1 :][:_LONGEST].replace("\n", " "))


def scrollable(text: str) -> str:
    """Lines as they were printed, colours and all, without anything that would move the cursor elsewhere.

    For what a program (or a worker whose output is let through) prints while a region is on the screen.
    """
    if "\x1b" in text:
        text = _ESCAPES.sub(lambda match: match[0] if _COLOUR.fullmatch(match[0]) else "", text)
    return text.translate(_MOVING)


def _printable(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPES.sub("", text).expandtabs(4)
    if text.isascii():
        return text if text.isprintable() else "".join(c for c in text if " " <= c <= "~")
    return "".join(c for c in unicodedata.normalize("NFC", text) if not _troublesome(c))


def _troublesome(character: str) -> bool:
    # Variation selectors change the width of the glyph before them in some terminals only: a frame would tear.
    return unicodedata.category(character) in _DROPPED_CATEGORIES or "\ufe00" <= character <= "\ufe0f"
