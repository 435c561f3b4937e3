"""Panels: pure functions from a stats snapshot to lines of cells. No clock, no terminal, no process is read here.

A snapshot is what ``get_stats()`` returns, plus what ``readings.py`` adds (``rss_bytes``, ``devices``). Every key is
optional, so that a view never ends a run because a number is missing.
"""
