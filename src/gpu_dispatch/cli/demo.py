"""``gpu-dispatch demo``: a real run on simulated GPUs, with the dashboard.

Real processes, real errors, a real timeout and a real crash; only the model is a pretence. About half a minute.
"""

from __future__ import annotations

import argparse
from typing import Any

DEFAULT_TASKS = 1200
DEFAULT_WORKERS = 4
TASK_TIMEOUT_S = 2.0


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "demo",
        help="watch a simulated run",
        description="Watch a real run on simulated GPUs: four workers, some errors, one timeout, one crash.",
    )
    parser.add_argument("--tasks", type=int, default=DEFAULT_TASKS, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument(
        "--gpus", type=int, default=DEFAULT_WORKERS, metavar="N", help="how many simulated GPUs (default: %(default)s)"
    )
    parser.add_argument(
        "--speed", type=float, default=1.0, metavar="X", help="how fast they are (default: %(default)s)"
    )
    parser.add_argument("--no-ui", action="store_true", help="print only the summary")
    # Both names: the command line's frame looks for `run`.
    parser.set_defaults(func=run_demo, run=run_demo)


def run_demo(arguments: argparse.Namespace) -> int:
    """Exit code 0 when every task has settled; the errors are part of the show."""
    from gpu_dispatch.errors import UsageError

    for name in ("tasks", "gpus", "speed"):
        if getattr(arguments, name) <= 0:
            raise UsageError(f"--{name} must be more than 0, got {getattr(arguments, name)}")

    from gpu_dispatch.testing.demo_worker import DemoWorker, demo_items
    from gpu_dispatch.ui import RichDispatcher

    dispatcher = RichDispatcher(DemoWorker, gpu_ids=list(range(arguments.gpus)), show_ui=not arguments.no_ui)
    stats = dispatcher.run(
        demo_items(arguments.tasks),
        task_timeout=TASK_TIMEOUT_S,
        total_tasks=arguments.tasks,
        speed=arguments.speed,
    )
    if arguments.no_ui:
        from gpu_dispatch.ui.plain_view import sentence

        print(sentence(stats))
    return 0 if stats["pending"] == 0 else 1
