"""The command line: parses options, runs one command, and turns bad input into one message.

Knows argparse and the commands. Exit codes: 0 done, 1 a check failed, 2 bad input, 130 interrupted.
Bad input never ends in a traceback, unless FUNGRAD_TRACEBACK=full asks for one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import fungrad as fg
from fungrad.cli_commands import (
    check_command,
    demo_command,
    grad_command,
    ir_command,
    why_command,
)
from fungrad.cli_input import InputError

BAD_INPUT, INTERRUPTED = 2, 130

ARGUMENTS = """\
values of --arg:
  x=1.5                  a number; nan and inf need --allow-nan
  'x=[[1, 2], [3, 4]]'   a list becomes a float64 array; tuples and dicts stay trees of values
  x:float32=[1, 2]       with a dtype; n=3 stays a Python int
  x=@data.npy            the array in a file
  x=@data.npz:key        one array of several
  x=@data.csv            all columns, as a matrix; one column, as a vector
  x=@data.csv:a          the column with the header a (0, 1, ... where there is no header)
  x=@data.csv:a,b        some columns, in this order
arguments with defaults may be left out.
"""

EXITS = "exit codes: 0 done, 1 a check failed, 2 bad input (a message on stderr says why).\n"

MAIN_EPILOG = f"""\
examples:
  fungrad grad model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.csv:a,b --check
  fungrad ir model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.csv:a,b --grad --source
  fungrad check model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.npy --samples 50
  fungrad why model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.csv:a,b
  fungrad demo

FILE.py:func is a Python function of yours, written with plain NumPy; it does not import fungrad.
`fungrad COMMAND --help` tells more.

{EXITS}"""

GRAD_EPILOG = f"""\
examples:
  fungrad grad model.py:loss --arg w=0.5 --arg x=@data.csv:height
  fungrad grad model.py:loss --arg w=0.5 --arg 'b=[1, 2]' --wrt w --wrt b --order 2 --check
  fungrad grad model.py:loss --arg w=0.5 --json | jq .derivative.w

--order 2 is the Hessian, block by block for each pair of arguments; higher orders likewise, up to
a million entries. Large arrays are summarised; --json has them in full.

{ARGUMENTS}
{EXITS}"""

IR_EPILOG = f"""\
examples:
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy --grad --wrt w --source
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy --grad --html loss.html

All real float arguments are inputs of the graph, or those of --wrt only; what else there is
(integers, strings) is fixed. Only the shapes and dtypes of inputs are known while tracing.

{ARGUMENTS}
{EXITS}"""

CHECK_EPILOG = f"""\
examples:
  fungrad check model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad check model.py:loss --arg w=0.5 --arg x=@data.npy --samples 100 --seed 1 --spread 0.1

Compares the gradient with central differences, and forward with reverse mode, at the given
arguments and at random points near them: each number differentiated by is moved by SPREAD times its
size times a standard normal. Runs in float64.

{ARGUMENTS}
{EXITS}"""

WHY_EPILOG = f"""\
examples:
  fungrad why model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad why model.py:loss --arg w=0.5 --arg x=@data.npy --wrt w --json

Names the line that is to blame: what is not used, stopped, behind argmax or a comparison, at a
kink, saturated; where a NaN was born, forward or backward. Also says what each stop saves.

{ARGUMENTS}
{EXITS}"""

DEMO_EPILOG = f"""\
examples:
  fungrad demo
  fungrad demo --json

Stable softmax with tied maxima, EM on the Old Faithful data, contrastive divergence, and an
adversarial example: what stop_gradient is for, each gradient checked against a formula by hand.

{EXITS}"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code; bad options raise SystemExit(2)."""
    options = _parser().parse_args(arguments)
    full_traceback = os.environ.get("FUNGRAD_TRACEBACK") == "full"
    output = sys.stdout
    # What the user's code prints must not get between the braces of --json.
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


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, like all other messages about bad input."""

    def error(self, message: str) -> NoReturn:
        """Prints the message and where help is, and exits."""
        print(f"{self.prog}: {message}. See {self.prog} --help.", file=sys.stderr)
        raise SystemExit(BAD_INPUT)


def _parser() -> Parser:
    parser = Parser(
        prog="fungrad",
        description="Gradients of plain NumPy functions, at real data.",
        epilog=MAIN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fungrad {fg.__version__}")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )

    def command(name: str, help: str, description: str, epilog: str) -> Parser:
        return commands.add_parser(
            name,
            help=help,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    grad = command(
        "grad",
        help="value and gradient of a function",
        description="Prints the value and the gradient (or a higher derivative) of a function.",
        epilog=GRAD_EPILOG,
    )
    _add_function_options(grad)
    grad.add_argument(
        "--order",
        type=_positive,
        default=1,
        metavar="N",
        help="1 (default), 2 for the Hessian, ...",
    )
    grad.add_argument("--check", action="store_true", help="compare with central differences")
    grad.set_defaults(run=grad_command)

    ir = command(
        "ir",
        help="the intermediate representation of a function or of its gradient",
        description="Prints the IR of a function, or of its gradient, in the style of a jaxpr.",
        epilog=IR_EPILOG,
    )
    _add_function_options(ir)
    ir.add_argument("--grad", action="store_true", help="of the gradient")
    ir.add_argument("--source", action="store_true", help="with your line at each equation")
    ir.add_argument("--html", metavar="OUT.html", help="draw it, as a page for a browser")
    ir.add_argument("--svg", metavar="OUT.svg", help="draw it, as a picture")
    ir.set_defaults(run=ir_command)

    check = command(
        "check",
        help="the gradient against finite differences, on random inputs",
        description="Tests the gradient of a function on random inputs near the given ones.",
        epilog=CHECK_EPILOG,
    )
    _add_function_options(check)
    check.add_argument(
        "--order", type=_positive, default=1, metavar="N", help="check this derivative (default 1)"
    )
    check.add_argument(
        "--samples", type=_count, default=20, metavar="N", help="random points (default 20)"
    )
    check.add_argument("--seed", type=_count, default=0, metavar="N", help="random (default 0)")
    check.add_argument(
        "--spread",
        type=_fraction,
        default=0.01,
        metavar="S",
        help="how far they lie (default 0.01)",
    )
    check.add_argument(
        "--tolerance", type=_tolerance, default=1e-5, metavar="T", help="relative (default 1e-5)"
    )
    check.set_defaults(run=check_command)

    why = command(
        "why",
        help="why a gradient is zero, NaN, infinite or fine",
        description="Says why the gradient by each argument is zero, NaN, infinite or fine.",
        epilog=WHY_EPILOG,
    )
    _add_function_options(why, "all")
    why.set_defaults(run=why_command)

    show = command(
        "demo",
        help="four worked uses of stop_gradient, each checked",
        description="Runs four worked examples and says what it found.",
        epilog=DEMO_EPILOG,
    )
    show.add_argument("--seed", type=_count, default=0, metavar="N", help="random (default 0)")
    show.add_argument("--json", action="store_true", help="print JSON")
    show.set_defaults(run=demo_command)
    return parser


def _add_function_options(parser: Parser, by_default: str = "the first") -> None:
    parser.add_argument("target", metavar="FILE.py:func", help="your function")
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an argument of the function: a Python literal or @FILE; repeat for each",
    )
    parser.add_argument(
        "--wrt",
        action="append",
        default=[],
        metavar="NAME",
        help=f"differentiate by this argument (default: {by_default}); may be repeated",
    )
    parser.add_argument(
        "--allow-nan", action="store_true", help="accept NaN and infinities in data and results"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with all entries")


def _positive(text: str) -> int:
    return int(_number_in(int, text, 1, "a whole number of 1 or more"))


def _count(text: str) -> int:
    return int(_number_in(int, text, 0, "a whole number of 0 or more"))


def _fraction(text: str) -> float:
    return float(_number_in(float, text, 0, "a number of 0 or more"))


def _tolerance(text: str) -> float:
    return float(_number_in(float, text, 1e-15, "a number of 1e-15 or more"))


def _number_in(kind: Callable[[str], float], text: str, least: float, what: str) -> float:
    try:
        value = kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None
    if not least <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value
