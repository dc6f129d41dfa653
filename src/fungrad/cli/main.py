"""The command line: parses options, runs one command, and reports bad input in one message.

Exit codes: 0 done, 1 a check failed, 2 bad input, 130 interrupted. Bad input never ends in a
traceback, unless FUNGRAD_TRACEBACK=full asks for one.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from fungrad.cli.parse_values import InputError
from fungrad.cli.parser import BAD_INPUT, parser

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code; bad options raise SystemExit(2)."""
    options = parser().parse_args(arguments)
    full_traceback = os.environ.get("FUNGRAD_TRACEBACK") == "full"
    output = sys.stdout
    # Output of the user's code must not mix with the JSON.
    elsewhere = contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()
    try:
        with elsewhere:
            code: int = options.run(options, output)
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
