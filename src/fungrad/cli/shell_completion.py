"""The command line's completion: scripts for bash, zsh and fish, written from the parser.

Knows argparse's actions and the three shells; knows no command. The scripts hold all names, so that
pressing TAB starts no Python.
"""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import NamedTuple, TextIO

from fungrad.cli.parser import parser
from fungrad.cli.shared import PASSED


class Option(NamedTuple):
    """One option: its name, what the help says, and what is completed behind it.

    `takes` is "" where it takes nothing, "file" for a path, "value" for what only the user knows.
    """

    name: str
    help: str
    takes: str


class Command(NamedTuple):
    """One command with its options; `words` are what may stand in place of a file."""

    name: str
    help: str
    options: list[Option]
    words: list[str]


def commands_of(parser: argparse.ArgumentParser) -> list[Command]:
    """The commands of a parser."""
    found = []
    for group in parser._actions:
        if not isinstance(group, argparse._SubParsersAction):
            continue
        helps = {choice.dest: choice.help or "" for choice in group._choices_actions}
        for name, inner in group.choices.items():
            options, words = [], []
            for action in inner._actions:
                words += [str(c) for c in action.choices or () if not action.option_strings]
                if action.option_strings:
                    name_of = action.option_strings[-1]
                    options.append(Option(name_of, action.help or "", _takes(action)))
            found.append(Command(name, helps[name], options, words))
    return found


def _takes(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    metavar = str(action.metavar or "")
    return "file" if re.search(r"\.(py|html|svg)\b", metavar) else "value"


_FUNCTIONS = r"'s/^def \([A-Za-z][A-Za-z0-9_]*\).*/\1/p'"
"""What sed does to a file to tell the names of its functions."""


def bash(commands: Sequence[Command]) -> str:
    """The script for bash."""
    lines = [
        "# fungrad's completion for bash",
        "_fungrad() {",
        "    # The words as they were typed: bash cuts them at : = and @, too.",
        '    local line="${COMP_LINE:0:COMP_POINT}" typed="${COMP_WORDS[COMP_CWORD]}"',
        '    local -a parts; read -ra parts <<<"$line"',
        '    [[ "$line" == *[[:space:]] ]] && parts+=("")',
        "    local count=${#parts[@]}",
        '    local current="${parts[count-1]}" previous="${parts[count-2]}"',
        '    local cut=""',
        "    COMPREPLY=()",
        '    if [ "$count" -eq 2 ]; then',
        f'        COMPREPLY=($(compgen -W "{_names(commands)} --help --version" -- "$current"))',
        "        return",
        "    fi",
        '    local options="" values="" words=""',
        '    case "${parts[1]}" in',
    ]
    for command in commands:
        options = " ".join(option.name for option in command.options)
        values = " ".join(o.name for o in command.options if o.takes == "value")
        lines.append(f"        {command.name})")
        lines.append(f'            options="{options}"')
        lines.append(f'            values="{values}"')
        lines.append(f'            words="{" ".join(command.words)}" ;;')
    lines += [
        "    esac",
        "    # What stands before the last : = or @ is not offered again where bash cut there.",
        '    if [[ "$current" == *[:=@]* && "$typed" != "$current" ]]; then',
        '        cut="${current%"${current##*[:=@]}"}"',
        "    fi",
        '    if [[ "$previous" == --arg && "$current" == *=@* ]]; then',
        "        compopt -o filenames 2>/dev/null",
        '        local stem="${current%%=@*}=@"',
        '        COMPREPLY=($(compgen -f -P "$stem" -- "${current#"$stem"}"))',
        '    elif [[ "$current" == *.py:* && ( "$previous" == --hand || "$count" -eq 3 ) ]]; then',
        '        local file="${current%%:*}"',
        f'        local names="$(sed -n {_FUNCTIONS} "$file" 2>/dev/null)"',
        '        COMPREPLY=($(compgen -P "$file:" -W "$names" -- "${current#*:}"))',
        "    fi",
        '    if [ "${#COMPREPLY[@]}" -gt 0 ]; then',
        '        COMPREPLY=("${COMPREPLY[@]#"$cut"}"); return',
        "    fi",
        '    if [[ " $values " == *" $previous "* ]]; then return; fi',
        '    if [[ "$current" == -* ]]; then',
        '        COMPREPLY=($(compgen -W "$options" -- "$current"))',
        '    elif [ -n "$words" ]; then',
        '        COMPREPLY=($(compgen -W "$words" -- "$current"))',
        "    else",
        '        COMPREPLY=($(compgen -f -- "$current"))',
        "    fi",
        "}",
        "complete -o filenames -F _fungrad fungrad",
    ]
    return "\n".join(lines) + "\n"


def _names(commands: Sequence[Command]) -> str:
    return " ".join(command.name for command in commands)


def zsh(commands: Sequence[Command]) -> str:
    """The script for zsh."""
    lines = [
        "#compdef fungrad",
        "# fungrad's completion for zsh",
        "_fungrad() {",
        "  local -a commands",
    ]
    lines.append("  commands=(")
    lines += [f"    {_quoted(f'{c.name}:{c.help}')}" for c in commands]
    lines += [
        "  )",
        "  if (( CURRENT == 2 )); then",
        "    _describe 'command' commands",
        "    _arguments '--help' '--version'",
        "    return",
        "  fi",
        '  local command="$words[2]"',
        "  shift words",
        "  (( CURRENT-- ))",
        '  case "$command" in',
    ]
    for command in commands:
        lines.append(f"    {command.name})")
        lines.append("      _arguments \\")
        for option in command.options:
            behind = {"": "", "file": ":file:_files", "value": ":value: "}[option.takes]
            text = re.sub(r"([\[\]:])", r"\\\1", option.help)
            lines.append(f"        {_quoted(f'*{option.name}[{text}]{behind}')} \\")
        words = f"({' '.join(command.words)})" if command.words else "_files"
        lines.append(f"        {_quoted(f'1:target:{words}')} ;;")
    lines += ["  esac", "}", '_fungrad "$@"']
    return "\n".join(lines) + "\n"


def fish(commands: Sequence[Command]) -> str:
    """The script for fish."""
    lines = ["# fungrad's completion for fish"]
    first = "complete -c fungrad -n __fish_use_subcommand"
    for command in commands:
        lines.append(f"{first} -f -a {command.name} -d {_escaped(command.help)}")
    lines += [f"{first} -l help", f"{first} -l version"]
    for command in commands:
        begin = f"complete -c fungrad -n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            needs = {"": "", "file": " -r -F", "value": " -x"}[option.takes]
            name = option.name.removeprefix("--")
            lines.append(f"{begin} -l {name}{needs} -d {_escaped(option.help)}")
        if command.words:
            lines.append(f"{begin} -f -a {_escaped(' '.join(command.words))}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A text in single quotes, as bash and zsh read it."""
    return "'" + text.replace("'", "'\\''") + "'"


def _escaped(text: str) -> str:
    """A text in single quotes, as fish reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS: dict[str, Callable[[Sequence[Command]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


def completion_command(options: Namespace, output: TextIO) -> int:
    """`fungrad completion`: the script for a shell."""
    output.write(SCRIPTS[options.shell](commands_of(parser())))
    return PASSED
