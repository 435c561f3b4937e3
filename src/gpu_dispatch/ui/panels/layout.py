"""How the panels share the screen: the whole dashboard, for any width and height."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpu_dispatch.ui.cells import Block, Line, boxed, fit_line, headed, inner_width
from gpu_dispatch.ui.formatting import clock, plural
from gpu_dispatch.ui.panels.errors import errors
from gpu_dispatch.ui.panels.gpu_table import gpu_table
from gpu_dispatch.ui.panels.output import output
from gpu_dispatch.ui.panels.overall import STATE_STYLES, overall
from gpu_dispatch.ui.snapshot import Snapshot

_SMALLEST_BOXED = (40, 16)  # below that, borders cost more than they give
_MOST_OUTPUT = 12
_MOST_ERRORS = 8


@dataclass(frozen=True, slots=True)
class Shares:
    """Lines inside each panel; 0 leaves the panel out."""

    overall: int
    gpus: int
    errors: int
    output: int


def share_height(height: int, border: int, *, overall: int, gpus: int, errors: int, output: int) -> Shares:
    """Divide ``height`` lines among panels that would like that many; ``border`` lines go with each panel.

    The overall panel and the troubled GPUs matter most, then the causes of errors, then what workers print.
    """
    room = height - border
    top = max(1, min(overall, room if room < 4 else max(3, room // 3)))
    left = room - top - border
    if not gpus or left < 2:  # no table, or no room for its header and a row
        return Shares(max(1, min(overall, room)), 0, 0, 0)
    few_errors = min(errors, 3, max(0, left // 4 - border))
    few_output = min(output, 3, max(0, left // 4 - border))
    reserved = sum(lines + border for lines in (few_errors, few_output) if lines)
    table = min(gpus + 1, max(2, left - reserved))
    left -= table + reserved
    more_errors = _grown(few_errors, min(errors, _MOST_ERRORS), left, border)
    left -= more_errors - few_errors + (border if more_errors and not few_errors else 0)
    return Shares(top, table, more_errors, _grown(few_output, min(output, _MOST_OUTPUT), left, border))


def _grown(has: int, wants: int, left: int, border: int) -> int:
    """What a panel gets of the ``left`` lines; one that has nothing yet must pay for its border too."""
    return max(has, min(wants, has + left - (0 if has else border)))


def dashboard(snapshot: Snapshot, width: int, height: int) -> Block:
    """At most ``height`` lines of exactly ``width`` cells."""
    width, height = max(1, width), max(1, height)
    is_boxed = width >= _SMALLEST_BOXED[0] and height >= _SMALLEST_BOXED[1]
    border, draw = (2, boxed) if is_boxed else (1, headed)
    inner = inner_width(width) if is_boxed else width
    workers = snapshot.get("gpu_status") or {}
    top = overall(snapshot, inner)
    shares = share_height(
        height,
        border,
        overall=len(top),
        gpus=len(workers),
        errors=len(snapshot.get("errors") or ()),
        output=len(snapshot.get("output") or ()),
    )
    state = str(snapshot.get("state") or "")
    elapsed = clock(snapshot.get("elapsed_s") or 0)
    lines = draw(_title(state, elapsed, inner), top[: shares.overall], width, aside=elapsed, title_style=_style(state))
    panels: list[tuple[int, str, Callable[[Snapshot, int, int], list[Line]], int]] = [
        (shares.gpus, plural(len(workers), "worker"), gpu_table, shares.gpus - 1),
        (shares.errors, "errors by cause", errors, shares.errors),
        (shares.output, "worker output", output, shares.output),
    ]
    for share, title, panel, rows in panels:
        if share:
            lines += draw(title, panel(snapshot, inner, rows), width)
    return Block([fit_line(line, width) for line in lines[:height]])


def _title(state: str, elapsed: str, width: int) -> str:
    return f"gpu_dispatch: {state}" if width >= len(state) + len(elapsed) + 20 else state


def _style(state: str) -> str:
    return STATE_STYLES.get(state, "title")
