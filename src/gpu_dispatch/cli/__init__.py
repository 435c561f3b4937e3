"""The command line, ``gpu-dispatch …`` and ``python -m gpu_dispatch …``: one file per command.

    entry.py        finds the command, imports only its file, turns exceptions into one line and an exit code
    run.py          gpu-dispatch run         over target.py  inputs.py  setup_values.py  output.py  views.py
    init.py         gpu-dispatch init        over templates/
    completion.py   gpu-dispatch completion
    gpus.py  demo.py  transcribe.py

A command's file has ``add_parser(subparsers)``, which adds its parser and names its function with
``set_defaults(run=function)``; the function takes the parsed arguments and returns an exit code:

    0    done
    1    some tasks failed, or the run could not be completed
    2    the command line is wrong: nothing was started
    130  ended by Ctrl-C       143  ended by SIGTERM

Nothing is imported here: a worker process imports this package when the target is a plain function.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; ``argv`` is what follows the program's name. Returns the exit code."""
    from gpu_dispatch.cli.entry import run_command_line

    return run_command_line(argv)
