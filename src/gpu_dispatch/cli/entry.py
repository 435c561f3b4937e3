"""From ``sys.argv`` to an exit code.

Only the file of the command that was asked for is imported: ``--version`` and ``--help`` answer at once,
and a command whose extra is not installed does not take the others with it.

A user's mistake is one line on stderr; ``--traceback`` (or ``GPU_DISPATCH_TRACEBACK=1``) shows where it was raised.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from gpu_dispatch import __version__
from gpu_dispatch.errors import GPUDispatchError, InternalError, Terminated, UsageError

PROGRAM = "gpu-dispatch"

DONE = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130
TERMINATED = 143

Handler = Callable[[argparse.Namespace], int]


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    summary: str

    @property
    def module(self) -> str:
        return f"gpu_dispatch.cli.{self.name}"


COMMANDS = (
    Command("run", "run a worker over files, folders, rows or lines"),
    Command("transcribe", "transcribe a folder of audio with Whisper"),
    Command("init", "write a commented worker to start from"),
    Command("gpus", "list the devices of this machine"),
    Command("demo", "watch a simulated run"),
    Command("completion", "print a completion script for your shell"),
)

_EXAMPLES = """\
examples:
  gpu-dispatch init worker.py --kind function
  gpu-dispatch run worker.py:process 'photos/**/*.jpg' -o out.jsonl
  gpu-dispatch gpus

exit codes: 0 done; 1 some tasks failed; 2 wrong command line; 130 Ctrl-C; 143 SIGTERM
"""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)
        self._action_max_length = 16  # argparse does not measure the commands, and would wrap the longer ones


class OneLineParser(argparse.ArgumentParser):
    """argparse, except that a mistake is one line and not the whole usage."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", _Formatter)
        kwargs.setdefault("allow_abbrev", False)  # what is short for one option today is short for two tomorrow
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(USAGE)


def build_parser(loaded: Sequence[str]) -> OneLineParser:
    """The parser of every command; only those in ``loaded`` are imported and know their options."""
    parser = OneLineParser(
        prog=PROGRAM,
        description="Keep every GPU of this machine busy with your worker.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    _add_traceback(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        if command.name in loaded:
            import_command(command).add_parser(commands)
            _add_traceback(commands.choices[command.name])
        else:
            commands.add_parser(command.name, help=command.summary, add_help=False)
    return parser


def run_command_line(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    wants_traceback = "--traceback" in arguments or os.environ.get("GPU_DISPATCH_TRACEBACK", "") not in ("", "0")
    try:
        return _dispatch(arguments)
    except SystemExit as ending:  # argparse's own, and Terminated, which is SIGTERM's 143
        if isinstance(ending, Terminated):
            return TERMINATED
        return ending.code if isinstance(ending.code, int) else DONE if ending.code is None else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`). Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (GPUDispatchError, OSError) as error:
        if wants_traceback or isinstance(error, InternalError):  # a bug of ours is not the user's mistake
            traceback.print_exc()
        print(f"{PROGRAM}: error: {_one_line(error)}", file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else FAILED


def _dispatch(arguments: list[str]) -> int:
    name = next((word for word in arguments if not word.startswith("-")), None)
    known = [command.name for command in COMMANDS]
    if name is not None and name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        advice = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
        raise UsageError(f"there is no command {name!r}; {advice}")
    # `gpu-dispatch --help run` asks about the program: its options stand before any command.
    leading = [word for word in arguments[: arguments.index(name)] if word != "--traceback"] if name else arguments
    parser = build_parser(loaded=[name] if name and not leading else [])
    parsed = parser.parse_args(arguments)
    if parsed.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    handler: Handler = parsed.run
    return handler(parsed)


def import_command(command: Command) -> Any:
    try:
        return importlib.import_module(command.module)
    except ModuleNotFoundError as error:
        if error.name == command.module:
            raise UsageError(f"this release of gpu-dispatch has no '{command.name}' command yet") from error
        raise UsageError(
            f"'{command.name}' needs the module {error.name!r}, which is not installed: "
            "pip install 'gpu-dispatch[all]' brings everything that the commands use"
        ) from error


def _add_traceback(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--traceback",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show Python's traceback with an error (also: GPU_DISPATCH_TRACEBACK=1)",
    )


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__
