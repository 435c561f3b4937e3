"""The options of ``gpu-dispatch run``, and what they mean to a Dispatcher."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

from gpu_dispatch.cli.inputs import AS_CHOICES
from gpu_dispatch.cli.views import UI_CHOICES

# Options of ``run`` that are options of a Dispatcher; one that is not given is left to the Dispatcher's own default.
_DISPATCHER_OPTIONS = (
    "backend",
    "batch_size",
    "drain_timeout",
    "gpus_per_worker",
    "io_threads",
    "log_dir",
    "queue_size",
    "retries",
    "setup_concurrency",
    "setup_timeout",
    "workers_per_gpu",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="worker.py:Class, package.module:Class, or a function")
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help="files, folders, 'patterns', or - (stdin)")
    _add_input_options(parser.add_argument_group("input"))
    _add_output_options(parser.add_argument_group("output"))
    _add_worker_options(parser.add_argument_group("workers"))


def dispatcher_options(arguments: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(arguments, name) for name in _DISPATCHER_OPTIONS}
    return {name: value for name, value in given.items() if value is not None}


def _add_input_options(group: Any) -> None:
    group.add_argument("--as", dest="as_", choices=AS_CHOICES, default="auto", help="what an input's items are")
    group.add_argument("--field", metavar="NAME", help="of each row, take this field as the item")
    group.add_argument("--limit", type=whole(1), metavar="N", help="stop after N items")
    group.add_argument("--total", type=whole(1), metavar="N", help="how many items there are, if it cannot be seen")


def _add_output_options(group: Any) -> None:
    group.add_argument("-o", "--output", default="-", metavar="FILE", help="a .jsonl file; - is stdout (default)")
    existing = group.add_mutually_exclusive_group()
    existing.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    existing.add_argument("--append", action="store_true", help="add to FILE if it exists")
    group.add_argument("--timings", action="store_true", help="add the seconds that each item took")
    group.add_argument("--ui", choices=UI_CHOICES, help="how to show progress, on stderr (default: what fits)")
    group.add_argument("--json", action="store_true", help="end with a summary as JSON (stdout; stderr with -o -)")
    group.add_argument("--log-dir", metavar="FOLDER", help="keep what each worker prints in a file of its own")


def _add_worker_options(group: Any) -> None:
    group.add_argument("--gpus", metavar="SPEC", help="auto, 0,2-5, UUIDs, cpu:4 (default: auto; cpu:1 without a GPU)")
    group.add_argument(
        "--setup", action="append", default=[], metavar="KEY=VALUE", help="an argument of setup(), JSON or text"
    )
    group.add_argument("--workers-per-gpu", type=whole(1, "auto"), metavar="N", help="a number, or auto")
    group.add_argument("--gpus-per-worker", type=whole(1), metavar="N", help="for models larger than a GPU")
    group.add_argument("--setup-concurrency", type=whole(1), metavar="N", help="how many may be in setup() at once")
    group.add_argument(
        "--batch-size", type=whole(1, "auto"), metavar="N", help="for process_batch(); a number, or auto"
    )
    group.add_argument("--io-threads", type=whole(1), metavar="N", help="threads for preprocess() and postprocess()")
    group.add_argument("--timeout", type=seconds, metavar="S", help="seconds for one item")
    group.add_argument("--retries", type=whole(0), metavar="N", help="tries after the first (default 0)")
    group.add_argument("--setup-timeout", type=seconds, metavar="S", help="seconds for setup() (default 600)")
    group.add_argument("--drain-timeout", type=seconds, metavar="S", help="seconds to finish after Ctrl-C (default 3)")
    group.add_argument("--queue-size", type=whole(1), metavar="N", help="items on their way at most (default 1024)")
    group.add_argument("--seed", type=int, default=42, metavar="N", help="base of all seeds (default 42)")
    group.add_argument("--backend", choices=("local", "inline"), help="inline: in this process, for a debugger")


def whole(least: int, word: str | None = None) -> Callable[[str], int | str]:
    """For argparse: a whole number of at least ``least``, or the one word that may stand for it."""

    def parse(text: str) -> int | str:
        if text == word:
            return text
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            expected = f"a whole number of at least {least}" + (f" or {word!r}" if word else "")
            raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")
        return number

    return parse


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (0 < value < math.inf):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value
