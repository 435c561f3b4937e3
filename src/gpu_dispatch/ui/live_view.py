"""The live view: a dashboard (or bars) in a terminal, a summary when it is over."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from rich.console import Console

from gpu_dispatch.ui.capture import Capture
from gpu_dispatch.ui.cells import Block, Palette
from gpu_dispatch.ui.region import Region
from gpu_dispatch.ui.snapshot import Snapshot


class LiveView:
    """``frame(snapshot, width, height)`` draws; ``ending(snapshot, width)`` is what stays on the screen."""

    def __init__(
        self,
        console: Console,
        frame: Callable[[Snapshot, int, int], Block],
        ending: Callable[[Snapshot, int], Block],
    ) -> None:
        self._console = console
        self._frame = frame
        self._ending = ending
        self._palette = Palette.of(console)
        self._lock = threading.RLock()  # the view's thread draws; one that prints very much may have to, too
        self._region = Region(console.file)
        self._capture = Capture(console, self._draw_again)
        self._last: Snapshot | None = None

    def open(self) -> None:
        _flush_standard_streams()  # what was printed before belongs above
        self._region.open()
        self._capture.open()

    def show(self, snapshot: Snapshot) -> None:
        with self._lock:
            self._last = snapshot
            width, height = self._console.size
            # One line less than there is: a terminal scrolls when its last cell is left.
            block = self._frame(snapshot, width, max(1, height - 1))
            lines = [self._palette.write(line) for line in block.lines]
            self._region.draw(lines, (width, height), above=self._capture.take())

    def close(self, snapshot: Snapshot | None) -> None:
        with self._lock:
            self._capture.close()
            self._last = None
            self._region.close(above=self._capture.take(everything=True))
            if snapshot is not None:
                write_block(self._console, self._ending(snapshot, self._console.width))

    def _draw_again(self) -> None:
        with self._lock:
            if self._last is not None:
                try:
                    self.show(self._last)
                except Exception:  # not in the middle of somebody's print(): the view's own thread will see it too
                    pass


def write_block(console: Console, block: Block) -> None:
    """Print a block as it is, on any kind of output."""
    palette = Palette.of(console)
    console.file.write("".join(palette.write(line).rstrip() + "\n" for line in block.lines))
    console.file.flush()


def _flush_standard_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, ValueError, OSError):
            pass
