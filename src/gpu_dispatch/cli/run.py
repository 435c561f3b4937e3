"""``gpu-dispatch run``: a worker over files, folders, rows or lines; results as JSON lines.

    INPUT… ─► inputs.py ─► records.remember ─► Dispatcher ─► records.on_… ─► output.py ─► out.jsonl
    TARGET ─► target.py ──────────────────────────┘

Everything that can be wrong with the command line is found before a worker starts.
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpu_dispatch.cli.entry import INTERRUPTED, PROGRAM, TERMINATED
from gpu_dispatch.cli.run_options import add_options, dispatcher_options
from gpu_dispatch.errors import AllWorkersFailed, Terminated, UsageError

if TYPE_CHECKING:
    from gpu_dispatch.cli.ending import Ending
    from gpu_dispatch.cli.inputs import Inputs
    from gpu_dispatch.cli.output import JsonLines
    from gpu_dispatch.cli.target import Target
    from gpu_dispatch.worker import BaseWorker

_DESCRIPTION = """\
Run a worker over every item of the inputs, on every GPU, and write one JSON line per item.

TARGET is worker.py:Class or package.module:Class (a gpu_dispatch.BaseWorker), or a plain function in either.
INPUT is a file, a folder, a quoted pattern, or - for stdin:
  .jsonl .ndjson .csv .tsv .parquet   each row is an item (a dict)
  .txt, and stdin                     each line is an item
  any other file, files in a folder   the path is the item
"""

_EXAMPLES = """\
examples:
  gpu-dispatch run worker.py:Caption 'photos/**/*.jpg' -o captions.jsonl
  gpu-dispatch run worker.py:Embed articles.parquet --field body --batch-size 64 -o vectors.jsonl
  gpu-dispatch run my_package.workers:Score rows.csv --gpus 0,1 --setup model=large -o scores.jsonl
  find . -name '*.pdf' | gpu-dispatch run extract.py:pages - --gpus cpu:4 --timeout 60 | jq .result

exit codes: 0 every item succeeded; 1 some failed; 2 wrong command line; 130 Ctrl-C; 143 SIGTERM
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "run",
        help="run a worker over files, folders, rows or lines",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    add_options(parser)
    parser.set_defaults(run=run_worker)


def run_worker(arguments: argparse.Namespace) -> int:
    from gpu_dispatch.cli.inputs import find_sources
    from gpu_dispatch.cli.output import STDOUT, JsonLines
    from gpu_dispatch.cli.setup_values import parse_setup
    from gpu_dispatch.cli.target import load_target
    from gpu_dispatch.cli.views import choose_ui

    to_stdout = arguments.output == STDOUT
    ui = choose_ui(arguments.ui, results_on_terminal=to_stdout and os.isatty(1))
    inputs = find_sources(arguments.inputs, arguments.as_, None if to_stdout else arguments.output)
    values = parse_setup(arguments.setup)
    with JsonLines(arguments.output, overwrite=arguments.overwrite, append=arguments.append) as output:
        # From here on, with -o -, whatever is printed goes to stderr: by modules when they are imported, by workers.
        target = load_target(arguments.target)
        worker_cls, setup = _worker(target, values, arguments)
        items = _items(inputs, arguments)
        ending = _run(arguments, ui, worker_cls, setup, items, _total(inputs, arguments), output)
        if ui != "none" or ending.exit_code:
            for line in ending.lines(causes=ui != "rich"):
                print(line, file=sys.stderr, flush=True)
        if arguments.json:
            print(ending.as_json(), flush=True)
        return ending.exit_code


def _worker(
    target: Target, values: dict[str, Any], arguments: argparse.Namespace
) -> tuple[type[BaseWorker], dict[str, Any]]:
    """The class to run and what its setup() gets."""
    from gpu_dispatch.cli.function_worker import FunctionWorker
    from gpu_dispatch.cli.setup_values import check_setup
    from gpu_dispatch.dispatcher import Dispatcher

    check_setup(target, values, taken=inspect.signature(Dispatcher.run).parameters)
    if not target.is_function:
        if arguments.batch_size is not None and not hasattr(target.obj, "process_batch"):
            raise UsageError(f"--batch-size: {target.name} has no process_batch(items)")
        return target.obj, values
    if arguments.batch_size is not None:
        raise UsageError(
            f"--batch-size: {target.name} is a function, called once per item; a class can have process_batch"
        )
    return FunctionWorker, {"module": target.module, "name": target.name, "arguments": values}


def _items(inputs: Inputs, arguments: argparse.Namespace) -> Iterator[Any]:
    from gpu_dispatch.cli.inputs import peek
    from gpu_dispatch.cli.readers import STDIN, take_field

    if STDIN in arguments.inputs and os.isatty(0):
        _say("reading items from the terminal, one per line; end with Ctrl-D")
    items = inputs.items()
    return peek(take_field(items, arguments.field) if arguments.field is not None else items)


def _total(inputs: Inputs, arguments: argparse.Namespace) -> int | None:
    total: int | None = arguments.total if arguments.total is not None else inputs.count()
    if total is None or arguments.limit is None:
        return total
    return min(total, int(arguments.limit))


def _run(
    arguments: argparse.Namespace,
    ui: str,
    worker_cls: type[BaseWorker],
    setup: dict[str, Any],
    items: Iterator[Any],
    total: int | None,
    output: JsonLines,
) -> Ending:
    from gpu_dispatch.cli.ending import Ending
    from gpu_dispatch.cli.records import Records
    from gpu_dispatch.cli.views import make_dispatcher, progress_shown

    records = Records(output)
    dispatcher = make_dispatcher(ui, worker_cls, _gpus(arguments), dispatcher_options(arguments))
    interrupted_by: int | None = None
    gave_up: AllWorkersFailed | None = None
    try:
        with progress_shown(ui, dispatcher):
            dispatcher.run(
                records.remember(items, arguments.limit),
                records.on_success,
                on_error=records.on_error,
                on_timeout=records.on_timeout,
                on_setup_fail=records.on_setup_fail,
                base_seed=arguments.seed,
                task_timeout=arguments.timeout,
                total_tasks=total,
                on_progress=records.on_progress if arguments.timings else None,
                **setup,
            )
    except Terminated:
        interrupted_by = TERMINATED
    except KeyboardInterrupt:
        interrupted_by = INTERRUPTED
    except AllWorkersFailed as error:
        gave_up = error
    return Ending(
        stats=dispatcher.get_stats(),
        output=output,
        unreadable=records.unreadable,
        setup_failures=tuple(records.setup_failures),
        interrupted_by=interrupted_by,
        gave_up=gave_up,
    )


def _gpus(arguments: argparse.Namespace) -> str:
    if arguments.gpus is not None:
        return str(arguments.gpus)
    from gpu_dispatch.devices import inventory

    if inventory(os.environ).primary is not None:
        return "auto"
    if arguments.ui != "none":
        _say("there is no GPU here: one worker on the CPU (--gpus cpu:4 runs four)")
    return "cpu:1"


def _say(line: str) -> None:
    print(f"{PROGRAM}: {line}", file=sys.stderr, flush=True)
