"""Puts a run into a page of the documentation, between two markers, with the plot beside the page."""

from __future__ import annotations

from pathlib import Path

START, END = "<!-- figures: written by `python -m benchmarks --publish` -->", "<!-- end of figures -->"


def into_page(page: Path, text: str, picture: str) -> None:
    plot = page.with_suffix(".svg")
    plot.write_text(picture, encoding="utf-8")
    with_plot = f"![The figures as bars]({plot.name})\n\n{text}"
    page.write_text(between_markers(page.read_text(encoding="utf-8"), with_plot), encoding="utf-8")


def between_markers(page: str, text: str) -> str:
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"the page has no place for figures: put {START!r} and {END!r} into it")
    return f"{before}{START}\n\n{text.strip()}\n\n{END}{after}"
