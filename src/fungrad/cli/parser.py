"""The command line's parser: options and help of each command, and `fungrad completion`, shtab's
script for a shell, made from the parser.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

import fungrad as fg
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

GRAD_EPILOG = f"""\
examples:
  fungrad grad model.py:loss --arg w=0.5 --arg x=@data.csv:height
  fungrad grad model.py:loss --arg w=0.5 --arg 'b=[1, 2]' --wrt w --wrt b --order 2 --check
  fungrad grad model.py:loss --arg w=0.5 --json | jq .derivative.w

--order 2 computes the Hessian, one block for each pair of arguments; higher orders likewise, up to
a million entries. Large arrays are summarised; --json prints them in full.

{ARGUMENTS}
{EXITS}"""

IR_EPILOG = f"""\
examples:
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy --grad --wrt w --lines
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy --grad --source gradient.py
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy --grad --html loss.html

The inputs of the graph are all real float arguments, or only those of --wrt; integers, strings and
others are fixed. While tracing only the shapes and dtypes of inputs are known.

--source prints the program that jit generates; with a file name it writes a module of plain NumPy
that does not need fungrad.

{ARGUMENTS}
{EXITS}"""

CHECK_EPILOG = f"""\
examples:
  fungrad check model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad check model.py:loss --arg w=0.5 --arg x=@data.npy --samples 100 --seed 1 --spread 0.1

Compares the gradient with central differences, and forward with reverse mode, at the given
arguments and at random points near them: Gaussian noise with standard deviation SPREAD * abs(value)
is added to each input. Runs in float64.

{ARGUMENTS}
{EXITS}"""

FIT_EPILOG = f"""\
examples:
  fungrad fit model.py:curve --data data.csv:time,height
  fungrad fit model.py:curve --data data.csv:time,height --p0 '[1, 0.5]' --plot fit.png
  fungrad fit model.py:curve --data data.csv:time,height --sigma @data.csv:error --json

The function is called as curve(x, a, b, ...), with all x at once, and returns as many numbers. The
last column of the data is y; where several precede it, x is an array with a row for each. Starts
are those of --p0, otherwise the defaults of the function's parameters, or 1.

{EXITS}"""

WHY_EPILOG = f"""\
examples:
  fungrad why model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad why model.py:loss --arg w=0.5 --arg x=@data.npy --wrt w --json

Names the line that makes a gradient zero (unused, stopped, used only by argmax or a comparison, at
a kink, saturated) or NaN, forward or backward. Also prints how much work each stop_gradient saves.

{ARGUMENTS}
{EXITS}"""

EXPLAIN_EPILOG = f"""\
examples:
  fungrad explain GradientCutError
  fungrad explain

{EXITS}"""

DEMO_EPILOG = f"""\
examples:
  fungrad demo
  fungrad demo --json

Four uses of stop_gradient: stable softmax with tied maxima, EM on the Old Faithful data,
contrastive divergence, an adversarial example. Each is checked against a formula derived by hand.

{EXITS}"""

COST_EPILOG = f"""\
examples:
  fungrad cost model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad cost model.py:loss --arg w=0.5 --arg x=@data.npy --grad --json

Computed counts, not timings: operations, bytes read and written, peak memory, and the equations
that each compiler pass removed. A scan counts all its steps, a while loop a single iteration.
Operations without a cost rule are listed separately.

{ARGUMENTS}
{EXITS}"""

PROFILE_EPILOG = f"""\
examples:
  fungrad profile model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad profile model.py:loss --arg w=0.5 --arg x=@data.npy --grad --repetitions 20
  fungrad profile model.py:loss --arg w=0.5 --arg x=@data.npy --explain

Runs the compiled function equation by equation, and adds up the times by line of your code,
primitive, scope, and forward or backward pass. Also times the compiled function as a whole.
With --explain: where each line of the compiled function runs (native code, BLAS, NumPy, Python),
its time there, why it is not native, and what would help.

{ARGUMENTS}
{EXITS}"""

DIGITS_EPILOG = f"""\
examples:
  fungrad digits model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad digits model.py:loss --arg w=0.5 --arg x=@data.npy --grad --check --plot digits.svg

Takes each operation to round at random, and adds up what that does to the result, by line of your
code.

{ARGUMENTS}
{EXITS}"""

BENCH_EPILOG = f"""\
examples:
  fungrad bench model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad bench model.py:loss --arg w=0.5 --arg x=@data.npy --hand model.py:slope --json

Times the function, its gradient, both under jit, and with --hand a gradient that you wrote. That
takes the same arguments and returns the gradients for those of --wrt, in their order; if it
disagrees, the check fails. Times are medians of interleaved rounds; first calls have a column.

{ARGUMENTS}
{EXITS}"""

COMPLETION_EPILOG = f"""\
examples:
  eval "$(fungrad completion bash)"                       in ~/.bashrc
  fungrad completion zsh > ~/.zfunc/_fungrad              with ~/.zfunc in fpath
  fungrad completion fish > ~/.config/fish/completions/fungrad.fish

shtab (pip install 'fungrad[cli]') writes the script from this version's options. Pressing TAB does
not run fungrad.

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


def parser() -> Parser:
    """The parser of all commands."""
    result = Parser(
        prog="fungrad",
        description="Computes and inspects derivatives of plain NumPy functions.",
        epilog=MAIN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    result.add_argument("--version", action="version", version=f"fungrad {fg.__version__}")
    commands = result.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for add in (
        _grad, _ir, _check, _why, _fit, _cost, _profile, _digits, _bench, _explain, _demo,
        _completion,
    ):  # fmt: skip
        add(commands)
    return result


def _command(commands: Any, name: str, help: str, description: str, epilog: str) -> Parser:
    result: Parser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return result


def _grad(commands: Any) -> None:
    grad = _command(
        commands,
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


def _ir(commands: Any) -> None:
    ir = _command(
        commands,
        "ir",
        help="the intermediate representation of a function or of its gradient",
        description="Prints the IR of a function, or of its gradient, in the style of a jaxpr.",
        epilog=IR_EPILOG,
    )
    _add_function_options(ir)
    ir.add_argument("--grad", action="store_true", help="of the gradient")
    ir.add_argument("--lines", action="store_true", help="with your line at each equation")
    ir.add_argument(
        "--source",
        nargs="?",
        const="-",
        metavar="OUT.py",
        help="print the compiled program; or write it to a file, as a module of plain NumPy",
    )
    ir.add_argument("--html", metavar="OUT.html", help="draw it, as a page for a browser")
    ir.add_argument("--svg", metavar="OUT.svg", help="draw it, as a picture")


def _check(commands: Any) -> None:
    check = _command(
        commands,
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
        help="relative size of the noise (default 0.01)",
    )
    check.add_argument(
        "--tolerance", type=_tolerance, default=1e-5, metavar="T", help="relative (default 1e-5)"
    )


def _why(commands: Any) -> None:
    why = _command(
        commands,
        "why",
        help="why a gradient is zero, NaN, infinite or fine",
        description="Says why the gradient of each argument is zero, NaN, infinite or fine.",
        epilog=WHY_EPILOG,
    )
    _add_function_options(why, "all")


def _fit(commands: Any) -> None:
    fit = _command(
        commands,
        "fit",
        help="fit a model to data, with standard errors and a plot",
        description="Fits the parameters of a model to the columns of a file, by least squares.",
        epilog=FIT_EPILOG,
    )
    fit.add_argument("target", metavar="FILE.py:func", help="your model")
    fit.add_argument(
        "--data", required=True, metavar="FILE.csv:x,y", help="a .csv, .npy or .npz file"
    )
    fit.add_argument("--p0", metavar="LIST", help="where the parameters start")
    fit.add_argument(
        "--sigma",
        metavar="VALUE",
        help="standard deviations of y: a number, a list or @FILE:column",
    )
    fit.add_argument("--plot", metavar="OUT.svg", help="draw the fit, with its confidence band")
    fit.add_argument("--json", action="store_true", help="print JSON")


def _cost(commands: Any) -> None:
    cost = _command(
        commands,
        "cost",
        help="how many operations and bytes a function or its gradient takes",
        description="Counts what the compiled function, or its gradient, costs.",
        epilog=COST_EPILOG,
    )
    _add_function_options(cost)
    cost.add_argument("--grad", action="store_true", help="of the gradient")


def _profile(commands: Any) -> None:
    profile = _command(
        commands,
        "profile",
        help="time spent on each line of your code",
        description="Shows which lines of a function, or of its gradient, take the time.",
        epilog=PROFILE_EPILOG,
    )
    _add_function_options(profile)
    profile.add_argument("--grad", action="store_true", help="of the gradient")
    profile.add_argument(
        "--explain", action="store_true", help="where each line runs, and why it is not native"
    )
    profile.add_argument(
        "--repetitions",
        type=_positive,
        metavar="N",
        help="runs to take the median of (default: as many as half a second allows)",
    )


def _digits(commands: Any) -> None:
    digits = _command(
        commands,
        "digits",
        help="how many digits of the result are right",
        description="Estimates the correct digits of a function, and names the lines that lose "
        "them.",
        epilog=DIGITS_EPILOG,
    )
    _add_function_options(digits)
    digits.add_argument("--grad", action="store_true", help="of the gradient")
    digits.add_argument(
        "--inputs", type=_positive, metavar="N", help="correct digits of the arguments"
    )
    digits.add_argument(
        "--check", action="store_true", help="compare with a run of 60 digits (needs mpmath)"
    )
    digits.add_argument(
        "--plot", metavar="FILE", help="draw the source with its lost digits: .png, .svg, .pdf"
    )


def _bench(commands: Any) -> None:
    bench = _command(
        commands,
        "bench",
        help="the function, its gradient and jit of both, timed side by side",
        description="Times a function, its gradient, both under jit, and a hand-written gradient.",
        epilog=BENCH_EPILOG,
    )
    _add_function_options(bench)
    bench.add_argument("--hand", metavar="FILE.py:func", help="a hand-written gradient")
    bench.add_argument(
        "--rounds", type=_positive, default=15, metavar="N", help="interleaved (default 15)"
    )
    bench.add_argument(
        "--tolerance",
        type=_tolerance,
        default=1e-6,
        metavar="T",
        help="largest relative error of --hand (default 1e-6)",
    )


def _explain(commands: Any) -> None:
    explain = _command(
        commands,
        "explain",
        help="what an error means, and how to fix it",
        description="Shows a program that raises an error, and the fixed one; or lists all.",
        epilog=EXPLAIN_EPILOG,
    )
    explain.add_argument("name", nargs="?", metavar="ERROR", help="as GradientCutError")
    explain.add_argument("--json", action="store_true", help="print JSON")


def _demo(commands: Any) -> None:
    demo = _command(
        commands,
        "demo",
        help="four worked uses of stop_gradient, each checked",
        description="Runs four worked examples and checks their results.",
        epilog=DEMO_EPILOG,
    )
    demo.add_argument("--seed", type=_count, default=0, metavar="N", help="random (default 0)")
    demo.add_argument("--json", action="store_true", help="print JSON")


def _completion(commands: Any) -> None:
    completion = _command(
        commands,
        "completion",
        help="a script that completes commands and options in your shell",
        description="Prints the script that completes fungrad's commands and options.",
        epilog=COMPLETION_EPILOG,
    )
    completion.add_argument("shell", choices=SHELLS, help="your shell")
    completion.set_defaults(json=False)


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
        help=f"the argument of the derivative (default: {by_default}); may be repeated",
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
