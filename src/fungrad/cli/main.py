"""The command line: parses options, runs one command, and reports bad input in one message.

Exit codes: 0 done, 1 a check failed, 2 bad input, 130 interrupted. Bad input never ends in a
traceback, unless FUNGRAD_TRACEBACK=full asks for one.
"""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TextIO

from fungrad.cli.commands import check_command, demo_command, grad_command, ir_command, why_command
from fungrad.cli.derivatives import explain_command
from fungrad.cli.digits_command import digits_command
from fungrad.cli.fit_command import fit_command
from fungrad.cli.measure_commands import bench_command, cost_command, profile_command
from fungrad.cli.parse_values import InputError
from fungrad.cli.parser import BAD_INPUT, completion_command, parser

INTERRUPTED = 130

COMMANDS: dict[str, Callable[[Namespace, TextIO], int]] = {
    "grad": grad_command,
    "ir": ir_command,
    "check": check_command,
    "why": why_command,
    "fit": fit_command,
    "cost": cost_command,
    "profile": profile_command,
    "digits": digits_command,
    "bench": bench_command,
    "explain": explain_command,
    "demo": demo_command,
    "completion": completion_command,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code; bad options raise SystemExit(2)."""
    options = parser().parse_args(arguments)
    full_traceback = os.environ.get("FUNGRAD_TRACEBACK") == "full"
    output = sys.stdout
    # Output of the user's code must not mix with the JSON.
    elsewhere = contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()
    try:
        with elsewhere:
            code: int = COMMANDS[options.command](options, output)
            output.flush()
        return code
    except InputError as error:
        if full_traceback:
            raise
        print(f"fungrad: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone; Python would complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
