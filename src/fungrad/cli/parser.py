"""The command line's parser: the options of each command, one function a command.

Knows argparse and the texts of the help; knows nothing of what a command does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import fungrad as fg
from fungrad.cli import help_text as texts

BAD_INPUT = 2
SHELLS = ("bash", "zsh", "fish")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, like all other messages about bad input."""

    def error(self, message: str) -> NoReturn:
        """Prints the message and where help is, and exits."""
        print(f"{self.prog}: {message}. See {self.prog} --help.", file=sys.stderr)
        raise SystemExit(BAD_INPUT)


def parser() -> Parser:
    """The parser of all commands."""
    result = Parser(
        prog="fungrad",
        description="Computes and inspects derivatives of plain NumPy functions.",
        epilog=texts.MAIN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    result.add_argument("--version", action="version", version=f"fungrad {fg.__version__}")
    commands = result.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for add in (_grad, _ir, _check, _why, _cost, _profile, _bench, _explain, _demo, _completion):
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
        epilog=texts.GRAD_EPILOG,
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
        epilog=texts.IR_EPILOG,
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
        epilog=texts.CHECK_EPILOG,
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
        epilog=texts.WHY_EPILOG,
    )
    _add_function_options(why, "all")


def _cost(commands: Any) -> None:
    cost = _command(
        commands,
        "cost",
        help="how many operations and bytes a function or its gradient takes",
        description="Counts what the compiled function, or its gradient, costs.",
        epilog=texts.COST_EPILOG,
    )
    _add_function_options(cost)
    cost.add_argument("--grad", action="store_true", help="of the gradient")


def _profile(commands: Any) -> None:
    profile = _command(
        commands,
        "profile",
        help="time spent on each line of your code",
        description="Shows which lines of a function, or of its gradient, take the time.",
        epilog=texts.PROFILE_EPILOG,
    )
    _add_function_options(profile)
    profile.add_argument("--grad", action="store_true", help="of the gradient")
    profile.add_argument(
        "--repetitions",
        type=_positive,
        metavar="N",
        help="runs to take the median of (default: as many as half a second allows)",
    )


def _bench(commands: Any) -> None:
    bench = _command(
        commands,
        "bench",
        help="the function, its gradient and jit of both, timed side by side",
        description="Times a function, its gradient, both under jit, and a hand-written gradient.",
        epilog=texts.BENCH_EPILOG,
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
        epilog=texts.EXPLAIN_EPILOG,
    )
    explain.add_argument("name", nargs="?", metavar="ERROR", help="as GradientCutError")
    explain.add_argument("--json", action="store_true", help="print JSON")


def _demo(commands: Any) -> None:
    demo = _command(
        commands,
        "demo",
        help="four worked uses of stop_gradient, each checked",
        description="Runs four worked examples and checks their results.",
        epilog=texts.DEMO_EPILOG,
    )
    demo.add_argument("--seed", type=_count, default=0, metavar="N", help="random (default 0)")
    demo.add_argument("--json", action="store_true", help="print JSON")


def _completion(commands: Any) -> None:
    completion = _command(
        commands,
        "completion",
        help="a script that completes commands and options in your shell",
        description="Prints the script that completes fungrad's commands and options.",
        epilog=texts.COMPLETION_EPILOG,
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
