"""``--setup key=value``: what ``setup()`` gets, checked against its signature before any process starts.

A value that reads as JSON is that value (``3``, ``0.5``, ``true``, ``null``, ``[1, 2]``, ``"3"``); anything else is
the text itself. What cannot be said in a shell can be said in JSON.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from typing import Any

from gpu_dispatch.cli.target import Target
from gpu_dispatch.errors import UsageError

GIVEN_BY_THE_RUN = ("gpu_id", "seed")


def parse_setup(pairs: Iterable[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(f"--setup {pair!r}: write key=value, with a Python name as the key")
        if key in values:
            raise UsageError(f"--setup {key} is given twice")
        values[key] = parse_value(text)
    return values


def parse_value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_not_json)
    except ValueError:
        return text


def check_setup(target: Target, values: Mapping[str, Any], taken: Iterable[str] = ()) -> None:
    """Raise UsageError if the target cannot be called with ``values``; ``taken`` are names the run() call needs."""
    function = target.obj if target.is_function else target.obj.setup
    given = () if target.is_function else GIVEN_BY_THE_RUN
    for key in values:
        if key in given:
            raise UsageError(f"--setup {key}: {key} is given by the run itself (see --gpus and --seed)")
        if not target.is_function and key in taken:
            raise UsageError(f"--setup {key}: this name has a meaning for run(); rename the argument of setup()")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C: it will complain for itself
        return
    # What stands before the values: self, gpu_id, seed; or the item.
    before: tuple[None, ...] = (None,) if target.is_function else (None, None, None)
    try:
        signature.bind(*before, **values)
    except TypeError as error:
        called = target.name if target.is_function else f"{target.name}.setup"
        raise UsageError(f"{called}(): {error} with --setup; it takes: {_describe(signature, len(before))}") from error


def _describe(signature: inspect.Signature, skipped: int) -> str:
    parameters = list(signature.parameters.values())[skipped:]
    names = [
        f"{p.name}={p.default!r:.40}" if p.default is not p.empty else p.name
        for p in parameters
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    return ", ".join(names) or "nothing"


def _not_json(text: str) -> Any:
    raise ValueError(text)  # json.loads would take NaN and Infinity, which are not JSON: they stay words
