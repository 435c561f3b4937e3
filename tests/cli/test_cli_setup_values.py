"""--setup key=value: how values are read, and what is refused before a process starts."""

from __future__ import annotations

import pytest

from gpu_dispatch.cli.setup_values import check_setup, parse_setup, parse_value
from gpu_dispatch.cli.target import Target
from gpu_dispatch.errors import UsageError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("null", None),
        ("[1, 2]", [1, 2]),
        ('{"a": 1}', {"a": 1}),
        ('"3"', "3"),
        ("base", "base"),
        ("./models/a=b", "./models/a=b"),
        ("True", "True"),
        ("NaN", "NaN"),
        ("[1, 2", "[1, 2"),
        ("", ""),
        (" ", " "),
    ],
)
def test_json_is_read_as_json_and_the_rest_is_text(text, value):
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_only_the_first_equals_sign_separates():
    assert parse_setup(["url=http://x/?a=b", "n=2"]) == {"url": "http://x/?a=b", "n": 2}


@pytest.mark.parametrize("pair", ["novalue", "=3", "a b=3", "1a=3", "a-b=3"])
def test_what_is_no_pair_is_refused_with_what_was_written(pair):
    with pytest.raises(UsageError, match="write key=value") as caught:
        parse_setup([pair])
    assert repr(pair) in str(caught.value)


def test_a_key_given_twice_is_refused():
    with pytest.raises(UsageError, match="--setup a is given twice"):
        parse_setup(["a=1", "a=2"])


class Worker:
    def setup(self, gpu_id, seed, model, size=224): ...


def function(item, *, unit="s"): ...


WORKER = Target("w.py:Worker", "w", "Worker", Worker, is_function=False)
FUNCTION = Target("w.py:function", "w", "function", function, is_function=True)


@pytest.mark.parametrize(
    ("target", "values", "said"),
    [
        (WORKER, {"model": "m", "sise": 3}, "it takes: model, size=224"),
        (WORKER, {}, "missing a required argument: 'model' with --setup"),
        (WORKER, {"model": "m", "seed": 3}, "seed is given by the run itself"),
        (WORKER, {"model": "m", "total_tasks": 3}, "has a meaning for run()"),
        (FUNCTION, {"units": "s"}, "function(): got an unexpected keyword argument 'units'"),
        (FUNCTION, {"item": 1}, "multiple values for argument 'item'"),
    ],
)
def test_values_that_setup_would_refuse_are_refused_at_once(target, values, said):
    with pytest.raises(UsageError) as caught:
        check_setup(target, values, taken={"total_tasks"})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("target", "values"),
    [(WORKER, {"model": 1}), (WORKER, {"model": 1, "size": 2}), (FUNCTION, {}), (FUNCTION, {"unit": "h"})],
)
def test_values_that_fit_pass(target, values):
    check_setup(target, values, taken={"total_tasks"})


def test_a_function_written_in_c_is_left_to_complain_for_itself():
    check_setup(Target("builtins:max", "builtins", "max", max, is_function=True), {"key": 1})
