"""``gpu-dispatch completion SHELL``: a completion script made from the parsers themselves.

Words are written into the script: completing takes no Python start, and an upgrade needs the script made again
(which ``eval "$(gpu-dispatch completion bash)"`` in the shell's start-up file does).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpu_dispatch.cli import entry
from gpu_dispatch.errors import UsageError

_EXAMPLES = """\
examples:
  eval "$(gpu-dispatch completion bash)"                                          # in ~/.bashrc
  eval "$(gpu-dispatch completion zsh)"                                           # in ~/.zshrc, after compinit
  gpu-dispatch completion fish > ~/.config/fish/completions/gpu-dispatch.fish
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "completion",
        help="print a completion script for your shell",
        description="Print a script that makes your shell complete commands, options and their values.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("shell", choices=sorted(SCRIPTS), help="your shell")
    parser.set_defaults(run=print_script)


def print_script(arguments: argparse.Namespace) -> int:
    loaded = [command.name for command in entry.COMMANDS if _can_load(command)]
    print(SCRIPTS[arguments.shell](read_parser(entry.build_parser(loaded))), end="")
    return entry.DONE


@dataclass(frozen=True, slots=True)
class Option:
    flags: tuple[str, ...]
    """Empty for a positional argument."""
    text: str
    takes_value: bool
    choices: tuple[str, ...]
    repeats: bool


@dataclass(frozen=True, slots=True)
class CommandLine:
    name: str
    text: str
    options: tuple[Option, ...]
    positionals: tuple[Option, ...]
    commands: tuple[CommandLine, ...] = ()


def read_parser(parser: argparse.ArgumentParser, text: str = "") -> CommandLine:
    """What a parser accepts, as plain values. argparse offers no public way to ask it."""
    options: list[Option] = []
    positionals: list[Option] = []
    commands: list[CommandLine] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            commands = [read_parser(sub, texts.get(name, "")) for name, sub in action.choices.items()]
        elif action.help != argparse.SUPPRESS:
            kind = options if action.option_strings else positionals
            kind.append(
                Option(
                    tuple(action.option_strings),
                    " ".join((action.help or "").split()) % {**vars(action), "prog": parser.prog},
                    takes_value=action.nargs != 0,
                    choices=tuple(str(choice) for choice in action.choices or ()),
                    repeats=isinstance(action, argparse._AppendAction),
                )
            )
    name = parser.prog.rpartition(" ")[2]
    return CommandLine(name, text, tuple(options), tuple(positionals), tuple(commands))


def bash_script(line: CommandLine) -> str:
    names = "|".join(command.name for command in line.commands)
    values, words = [], []
    for command in line.commands:
        for option in command.options:
            if option.takes_value:
                spots = "|".join(f'"{command.name} {flag}"' for flag in option.flags)
                offer = f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$cur"))' if option.choices else ":"
                values.append(f"        {spots}) {offer}; return ;;")
        fixed = _fixed_words(command)
        flags = [flag for option in command.options for flag in option.flags]
        words.append(f'        {command.name}) words="{" ".join(fixed + flags)}"; fixed="{" ".join(fixed)}" ;;')
    top = [command.name for command in line.commands] + [flag for option in line.options for flag in option.flags]
    return f"""\
# {line.name}: completion for bash
_gpu_dispatch() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command= word words fixed=
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case $word in {names}) command=$word; break ;; esac
    done
    COMPREPLY=()
    case "$command $prev" in
{chr(10).join(values)}
    esac
    case $command in
        "") words="{" ".join(top)}"; fixed=$words ;;
{chr(10).join(words)}
    esac
    # Otherwise nothing is offered here, and "-o default" completes file names.
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
    elif [[ -n $fixed ]]; then
        COMPREPLY=($(compgen -W "$fixed" -- "$cur"))
    fi
}}
complete -o default -F _gpu_dispatch {line.name}
"""


def zsh_script(line: CommandLine) -> str:
    cases = []
    for command in line.commands:
        specs = [_zsh_option(option) for option in command.options]
        specs.append(_quote(f"*: :{_zsh_values(_fixed_words(command))}"))
        cases.append(f"        {command.name}) _arguments {' '.join(specs)} ;;")
    described = " ".join(_quote(f"{command.name}:{command.text}") for command in line.commands)
    top = " ".join(_zsh_option(option) for option in line.options)
    return f"""\
#compdef {line.name}
# {line.name}: completion for zsh
_gpu_dispatch() {{
    local curcontext=$curcontext state line
    local -a commands=({described})
    _arguments -C {top} '1: :->command' '*:: :->arguments'
    case $state in
    command) _describe -t commands command commands ;;
    arguments)
        case $line[1] in
{chr(10).join(cases)}
        esac ;;
    esac
}}
if [[ $funcstack[1] == _gpu_dispatch ]]; then _gpu_dispatch "$@"; else compdef _gpu_dispatch {line.name}; fi
"""


def fish_script(line: CommandLine) -> str:
    names = " ".join(command.name for command in line.commands)
    begin = f"complete -c {line.name}"
    unset = _quote(f"not __fish_seen_subcommand_from {names}")
    lines = [f"# {line.name}: completion for fish"]
    lines += [f"{begin} -f -n {unset} -a {command.name} -d {_quote(command.text)}" for command in line.commands]
    lines += [f"{begin} -n {unset} {_fish_option(option)}" for option in line.options]
    for command in line.commands:
        inside = f"{begin} -n {_quote('__fish_seen_subcommand_from ' + command.name)}"
        lines += [f"{inside} {_fish_option(option)}" for option in command.options]
        fixed = _fixed_words(command)
        if fixed:
            lines.append(f"{inside} -f -a {_quote(' '.join(fixed))}")
    return "\n".join(lines) + "\n"


SCRIPTS = {"bash": bash_script, "fish": fish_script, "zsh": zsh_script}


def _can_load(command: entry.Command) -> bool:
    try:
        entry.import_command(command)
    except UsageError:  # an extra is missing: the command completes by its name alone
        return False
    return True


def _zsh_option(option: Option) -> str:
    text = option.text
    for special in "\\[]:":
        text = text.replace(special, "\\" + special)
    star = "*" if option.repeats else ""
    value = f":value:{_zsh_values(option.choices)}" if option.takes_value else ""
    return " ".join(_quote(f"{star}{flag}[{text}]{value}") for flag in option.flags)


def _zsh_values(choices: Sequence[str]) -> str:
    return f"({' '.join(choices)})" if choices else "_files"


def _fixed_words(command: CommandLine) -> list[str]:
    """What may stand where no option is; empty where anything may, a file most likely."""
    return [choice for positional in command.positionals for choice in positional.choices]


def _fish_option(option: Option) -> str:
    flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
    value = ""
    if option.takes_value:
        value = f" -x -a {_quote(' '.join(option.choices))}" if option.choices else " -r"
    return f"{flags}{value} -d {_quote(option.text)}"


def _quote(text: str) -> str:
    """In single quotes, for bash, zsh and fish alike: none of them reads anything inside but the quote itself."""
    return "'" + text.replace("'", "’") + "'"
