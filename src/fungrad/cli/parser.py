"""The command line's commands with their options and help, the parser, and `fungrad completion`,
shtab's script for a shell, made from the parser.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, TextIO

import fungrad as fg
from fungrad.cli.commands import check_command, demo_command, grad_command, ir_command, why_command
from fungrad.cli.derivatives import explain_command
from fungrad.cli.fit_command import fit_command
from fungrad.cli.measure_commands import (
    bench_command,
    cost_command,
    digits_command,
    profile_command,
)
from fungrad.cli.parse_values import InputError
from fungrad.cli.report import PASSED
from fungrad.support.lazy import imported

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
  fungrad ir model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.csv:a,b --grad --lines
  fungrad check model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.npy --samples 50
  fungrad why model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.csv:a,b
  fungrad bench model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.csv:a,b --hand model.py:slope
  fungrad profile model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.csv:a,b --grad
  fungrad digits model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.csv:a,b
  fungrad fit model.py:curve --data data.csv:x,y --p0 '[1, 0.5]' --plot fit.png
  fungrad demo

FILE.py:func is a Python function of yours, written with plain NumPy; it does not import fungrad.
`fungrad COMMAND --help` shows the options of a command.

{EXITS}"""


BAD_INPUT = 2
SHELLS = ("bash", "zsh", "fish")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, like all other messages about bad input."""

    def error(self, message: str) -> NoReturn:
        """Prints the message and the command for help, and exits."""
        wrong, *known = re.findall(r"'([^' ]+)'", message) or [""]
        near = difflib.get_close_matches(wrong, known or self._option_string_actions, 1)
        message += f". Did you mean {near[0]}?" if near else "."
        print(f"{self.prog}: {message} See {self.prog} --help.", file=sys.stderr)
        raise SystemExit(BAD_INPUT)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parses the options, and refuses unknown ones."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"there is no argument '{unknown[0]}'")
        return options, unknown


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


def completion_command(options: Namespace, output: TextIO) -> int:
    """Writes the script, which holds all names: pressing TAB starts no Python.

    Raises:
      InputError: where shtab is not installed.
    """
    try:
        shtab = imported("shtab")
    except ImportError:
        raise InputError("`fungrad completion` needs shtab: pip install 'fungrad[cli]'.") from None
    whole = parser()
    (commands,) = [a for a in whole._actions if isinstance(a, argparse._SubParsersAction)]
    for command in commands.choices.values():
        for action in command._actions:
            if re.search(r"\.(py|html|svg|csv)\b", str(action.metavar or "")):
                action.complete = shtab.FILE
    output.write(shtab.complete(whole, options.shell))
    return PASSED


class Command(NamedTuple):
    """A command: the function that runs it, its help in a line and in a sentence, a text, options.

    The text begins with examples.
    """

    name: str
    run: Callable[[Namespace, TextIO], int]
    help: str
    description: str
    text: str
    options: Sequence[Option]


Option = tuple[tuple[str, ...], dict[str, Any]]


def _option(*names: str, **how: Any) -> Option:
    """What `add_argument` takes."""
    return names, how


def _flag(name: str, help: str) -> Option:
    return _option(name, action="store_true", help=help)


def _function(by_default: str = "the first") -> tuple[Option, ...]:
    """The options of the commands that run a function of yours."""
    return (
        _option("target", metavar="FILE.py:func", help="your function"),
        _option(
            "--arg", action="append", default=[], metavar="NAME=VALUE",
            help="an argument of the function: a Python literal or @FILE; repeat for each",
        ),
        _option(
            "--wrt", action="append", default=[], metavar="NAME",
            help=f"the argument of the derivative (default: {by_default}); may be repeated",
        ),
        _flag("--allow-nan", "accept NaN and infinities in data and results"),
        _flag("--json", "print JSON, with all entries"),
    )  # fmt: skip


GRADIENT = _flag("--grad", "of the gradient")
JSON = _flag("--json", "print JSON")
SEED = _option("--seed", type=_count, default=0, metavar="N", help="random (default 0)")

COMMANDS = (
    Command(
        "grad",
        grad_command,
        "value and gradient of a function",
        "Prints the value and the gradient (or a higher derivative) of a function.",
        """\
  fungrad grad model.py:loss --arg w=0.5 --arg x=@data.csv:height
  fungrad grad model.py:loss --arg w=0.5 --arg 'b=[1, 2]' --wrt w --wrt b --order 2 --check
  fungrad grad model.py:loss --arg w=0.5 --json | jq .derivative.w

--order 2 computes the Hessian, one block for each pair of arguments; higher orders likewise, up to
a million entries. Large arrays are summarised; --json prints them in full.
""",
        (
            *_function(),
            _option(
                "--order", type=_positive, default=1, metavar="N",
                help="1 (default), 2 for the Hessian, ...",
            ),
            _flag("--check", "compare with central differences"),
        ),
    ),
    Command(
        "ir",
        ir_command,
        "the intermediate representation of a function or of its gradient",
        "Prints the IR of a function, or of its gradient, in the style of a jaxpr.",
        """\
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy --grad --wrt w --lines
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy --grad --source gradient.py
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy --grad --html loss.html

The inputs of the graph are all real float arguments, or only those of --wrt; integers, strings and
others are fixed. While tracing only the shapes and dtypes of inputs are known.

--source prints the program that jit generates; with a file name it writes a module of plain NumPy
that does not need fungrad.
""",
        (
            *_function(),
            GRADIENT,
            _flag("--lines", "with your line at each equation"),
            _option(
                "--source", nargs="?", const="-", metavar="OUT.py",
                help="print the compiled program; or write it to a file, as a module of plain "
                "NumPy",
            ),
            _option("--html", metavar="OUT.html", help="draw it, as a page for a browser"),
            _option("--svg", metavar="OUT.svg", help="draw it, as a picture"),
        ),
    ),
    Command(
        "check",
        check_command,
        "the gradient against finite differences, on random inputs",
        "Tests the gradient of a function on random inputs near the given ones.",
        """\
  fungrad check model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad check model.py:loss --arg w=0.5 --arg x=@data.npy --samples 100 --seed 1 --spread 0.1

Compares the gradient with central differences, and forward with reverse mode, at the given
arguments and at random points near them: Gaussian noise with standard deviation SPREAD * abs(value)
is added to each input. Runs in float64.
""",
        (
            *_function(),
            _option(
                "--order", type=_positive, default=1, metavar="N",
                help="check this derivative (default 1)",
            ),
            _option(
                "--samples", type=_count, default=20, metavar="N", help="random points (default 20)"
            ),
            SEED,
            _option(
                "--spread", type=_fraction, default=0.01, metavar="S",
                help="relative size of the noise (default 0.01)",
            ),
            _option(
                "--tolerance", type=_tolerance, default=1e-5, metavar="T",
                help="relative (default 1e-5)",
            ),
        ),
    ),
    Command(
        "why",
        why_command,
        "why a gradient is zero, NaN, infinite or fine",
        "Says why the gradient of each argument is zero, NaN, infinite or fine.",
        """\
  fungrad why model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad why model.py:loss --arg w=0.5 --arg x=@data.npy --wrt w --json

Names the line that makes a gradient zero (unused, stopped, used only by argmax or a comparison, at
a kink, saturated) or NaN, forward or backward. Also prints how much work each stop_gradient saves.
""",
        _function("all"),
    ),
    Command(
        "fit",
        fit_command,
        "fit a model to data, with standard errors and a plot",
        "Fits the parameters of a model to the columns of a file, by least squares.",
        """\
  fungrad fit model.py:curve --data data.csv:time,height
  fungrad fit model.py:curve --data data.csv:time,height --p0 '[1, 0.5]' --plot fit.png
  fungrad fit model.py:curve --data data.csv:time,height --sigma @data.csv:error --json

The function is called as curve(x, a, b, ...), with all x at once, and returns as many numbers. The
last column of the data is y; where several precede it, x is an array with a row for each. Starts
are those of --p0, otherwise the defaults of the function's parameters, or 1.
""",
        (
            _option("target", metavar="FILE.py:func", help="your model"),
            _option(
                "--data", required=True, metavar="FILE.csv:x,y", help="a .csv, .npy or .npz file"
            ),
            _option("--p0", metavar="LIST", help="where the parameters start"),
            _option(
                "--sigma", metavar="VALUE",
                help="standard deviations of y: a number, a list or @FILE:column",
            ),
            _option("--plot", metavar="OUT.svg", help="draw the fit, with its confidence band"),
            JSON,
        ),
    ),
    Command(
        "cost",
        cost_command,
        "how many operations and bytes a function or its gradient takes",
        "Counts what the compiled function, or its gradient, costs.",
        """\
  fungrad cost model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad cost model.py:loss --arg w=0.5 --arg x=@data.npy --grad --json

Computed counts, not timings: operations, bytes read and written, peak memory, and the equations
that each compiler pass removed. A scan counts all its steps, a while loop a single iteration.
Operations without a cost rule are listed separately.
""",
        (*_function(), GRADIENT),
    ),
    Command(
        "profile",
        profile_command,
        "time spent on each line of your code",
        "Shows which lines of a function, or of its gradient, take the time.",
        """\
  fungrad profile model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad profile model.py:loss --arg w=0.5 --arg x=@data.npy --grad --repetitions 20
  fungrad profile model.py:loss --arg w=0.5 --arg x=@data.npy --explain

Runs the compiled function equation by equation, and adds up the times by line of your code,
primitive, scope, and forward or backward pass. Also times the compiled function as a whole.
With --explain: where each line of the compiled function runs (native code, BLAS, NumPy, Python),
its time there, why it is not native, and what would help.
""",
        (
            *_function(),
            GRADIENT,
            _flag("--explain", "where each line runs, and why it is not native"),
            _option(
                "--repetitions", type=_positive, metavar="N",
                help="runs to take the median of (default: as many as half a second allows)",
            ),
        ),
    ),
    Command(
        "digits",
        digits_command,
        "how many digits of the result are right",
        "Estimates the correct digits of a function, and names the lines that lose them.",
        """\
  fungrad digits model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad digits model.py:loss --arg w=0.5 --arg x=@data.npy --grad --check --plot digits.svg

Takes each operation to round at random, and adds up what that does to the result, by line of your
code.
""",
        (
            *_function(),
            GRADIENT,
            _option(
                "--inputs", type=_positive, metavar="N", help="correct digits of the arguments"
            ),
            _flag("--check", "compare with a run of 60 digits (needs mpmath)"),
            _option(
                "--plot", metavar="FILE",
                help="draw the source with its lost digits: .png, .svg, .pdf",
            ),
        ),
    ),
    Command(
        "bench",
        bench_command,
        "the function, its gradient and jit of both, timed side by side",
        "Times a function, its gradient, both under jit, and a hand-written gradient.",
        """\
  fungrad bench model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad bench model.py:loss --arg w=0.5 --arg x=@data.npy --hand model.py:slope --json

Times the function, its gradient, both under jit, and with --hand a gradient that you wrote. That
takes the same arguments and returns the gradients for those of --wrt, in their order; if it
disagrees, the check fails. Times are medians of interleaved rounds; first calls have a column.
""",
        (
            *_function(),
            _option("--hand", metavar="FILE.py:func", help="a hand-written gradient"),
            _option(
                "--rounds", type=_positive, default=15, metavar="N", help="interleaved (default 15)"
            ),
            _option(
                "--tolerance", type=_tolerance, default=1e-6, metavar="T",
                help="largest relative error of --hand (default 1e-6)",
            ),
        ),
    ),
    Command(
        "explain",
        explain_command,
        "what an error means, and how to fix it",
        "Shows a program that raises an error, and the fixed one; or lists all.",
        """\
  fungrad explain GradientCutError
  fungrad explain
""",
        (_option("name", nargs="?", metavar="ERROR", help="as GradientCutError"), JSON),
    ),
    Command(
        "demo",
        demo_command,
        "four worked uses of stop_gradient, each checked",
        "Runs four worked examples and checks their results.",
        """\
  fungrad demo
  fungrad demo --json

Four uses of stop_gradient: stable softmax with tied maxima, EM on the Old Faithful data,
contrastive divergence, an adversarial example. Each is checked against a formula derived by hand.
""",
        (SEED, JSON),
    ),
    Command(
        "completion",
        completion_command,
        "a script that completes commands and options in your shell",
        "Prints the script that completes fungrad's commands and options.",
        """\
  eval "$(fungrad completion bash)"                       in ~/.bashrc
  fungrad completion zsh > ~/.zfunc/_fungrad              with ~/.zfunc in fpath
  fungrad completion fish > ~/.config/fish/completions/fungrad.fish

shtab (pip install 'fungrad[cli]') writes the script from this version's options. Pressing TAB does
not run fungrad.
""",
        (_option("shell", choices=SHELLS, help="your shell"),),
    ),
)  # fmt: skip


def parser() -> Parser:
    """The parser of all commands."""
    common: dict[str, Any] = {
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }
    result = Parser(
        prog="fungrad",
        description="Computes and inspects derivatives of plain NumPy functions.",
        epilog=MAIN_EPILOG,
        **common,
    )
    result.add_argument("--version", action="version", version=f"fungrad {fg.__version__}")
    commands = result.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for name, run, help, description, text, options in COMMANDS:
        values = f"{ARGUMENTS}\n" if any("--arg" in names for names, _ in options) else ""
        epilog = f"examples:\n{text}\n{values}{EXITS}"
        command = commands.add_parser(
            name, help=help, description=description, epilog=epilog, **common
        )
        command.set_defaults(run=run, json=False)
        for names, how in options:
            command.add_argument(*names, **how)
    return result
