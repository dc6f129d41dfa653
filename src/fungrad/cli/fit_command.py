"""The command line's `fit`: the parameters of a model by least squares, and a plot of the fit.

`fg.curve_fit` does the fit; a plot needs Matplotlib (extra `viz`).
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any, TextIO

import numpy as np

import fungrad as fg
from fungrad.cli.parse_values import InputError, cast, listed, parse_value, read_file
from fungrad.cli.report import PASSED, answer_json, finish, head, new_figure, number_text, titled
from fungrad.cli.user_function import EVALUATED, UserCall, load_function, quiet, user_code
from fungrad.errors import MissingExtraError


def fit_command(options: Namespace, output: TextIO) -> int:
    """`fungrad fit`: the parameters of a model that fit a table best, with standard errors."""
    try:
        curve_fit = fg.curve_fit
    except MissingExtraError as error:
        raise InputError(error.message) from None
    call = load_function(options.target)
    x, y = _data(options.data)
    name, start = _start(call, options.p0)
    call.values = {name: x, "p0": start}
    sigma = None if options.sigma is None else _numbers(options.sigma, "--sigma")
    with quiet(call.notes):
        with user_code(call, EVALUATED):
            value = call.function(x, *start)
            if np.shape(value) == y.shape and not np.all(np.isfinite(value)):
                raise InputError(f"{call.name} is not finite at the start; give another --p0.")
        with user_code(call, "was being fitted"):
            try:
                fit = curve_fit(call.function, x, y, start, sigma, sigma is not None)
            except RuntimeError as error:  # SciPy raises it if the fit does not converge
                raise InputError(str(error).replace("p0", "--p0")) from None
            if options.plot:
                _plot(fit, (x, y, sigma), (name, call.name), options.plot)
    low, high = fit.confidence_interval()
    rows = list(zip(fit.names, fit.parameters, fit.standard_errors, low, high, strict=True))
    if options.json:
        keys = ("estimate", "standard_error", "low", "high")
        content = head(call, fit.names) | {
            "data": options.data,
            "parameters": {row[0]: dict(zip(keys, row[1:], strict=True)) for row in rows},
            "covariance": fit.covariance,
            "sum_of_squares": fit.sum_of_squares,
            "degrees_of_freedom": fit.degrees_of_freedom,
        }
        answer_json(content, call, output)
        return PASSED
    report = titled(call)
    report.heading(f"fit to {y.size} points of {options.data}")
    report.table(
        ["parameter", "estimate", "standard error", "95 % confidence"],
        [(n, number_text(p), f"{e:.3g}", f"{a:.6g} to {b:.6g}") for n, p, e, a, b in rows],
    )
    squares, freedom = number_text(fit.sum_of_squares), fit.degrees_of_freedom
    report.line(f"  sum of squares {squares}, {freedom} degrees of freedom")
    if not np.all(np.isfinite(fit.covariance)):
        report.line("  The data do not determine all parameters: leave one out, or add data.")
    if options.plot:
        report.line(f"  drawn in {options.plot}")
    finish(report, call, output)
    return PASSED


def _numbers(text: str, option: str) -> Any:
    return cast(parse_value(text, option), "float64", option)


def _data(text: str) -> tuple[Any, Any]:
    """x and y: the last column is y, one other is x; of several, x is an array of rows."""
    table = cast(read_file(text.removeprefix("@"), "--data"), "float64", "--data")
    if np.ndim(table) != 2 or table.shape[1] < 2:
        raise InputError(
            f"--data {text} has no columns for x and y; name them, as in --data data.csv:x,y."
        )
    bad = np.argwhere(~np.isfinite(table))
    if bad.size:
        row, column = bad[0]
        raise InputError(
            f"--data {text}: row {row + 1} of the numbers holds {table[row, column]}; leave "
            "incomplete rows out."
        )
    x = table[:, :-1].T
    return x[0] if len(x) == 1 else x, table[:, -1]


def _start(call: UserCall, text: str | None) -> tuple[str, Any]:
    """The name of x, and the initial parameters: --p0, their defaults, or 1."""
    kinds = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")
    positional = [p for p in call.signature.parameters.values() if p.kind.name in kinds]
    taken = positional[1:]
    given = [p.default if isinstance(p.default, (int, float)) else 1.0 for p in taken]
    start = np.array(given) if text is None else np.atleast_1d(_numbers(text, "--p0"))
    if not start.size:
        raise InputError(
            f"{call.name} has no parameters to fit; write def {call.name}(x, a, b), or give --p0."
        )
    if start.ndim != 1 or (taken and len(taken) != start.size) or not np.isfinite(start).all():
        raise InputError(
            f"--p0 has shape {start.shape}; give {call.name} a number for each of "
            f"{listed(p.name for p in taken)}, as in --p0 '{given}'."
        )
    return positional[0].name if positional else "x", start


def _plot(fit: Any, data: tuple[Any, Any, Any], labels: tuple[str, str], path: str) -> None:
    """Draws the data, the model and its 95 % confidence band."""
    x, y, sigma = data
    if x.ndim != 1:
        raise InputError(f"--plot needs a single column x, and --data has {len(x)}.")
    figure = new_figure()
    axes = figure.subplots()
    axes.errorbar(x, y, sigma, fmt=".", color="#777777", label="data")
    line = np.linspace(x.min(), x.max(), 400)
    axes.plot(line, fit(line), color="#1f5fa8", label="fit")
    if np.all(np.isfinite(fit.covariance)):
        band = fit.confidence_band(line)
        axes.fill_between(line, *band, color="#1f5fa8", alpha=0.25, label="95 % confidence")
    axes.set(xlabel=labels[0], ylabel=labels[1])
    axes.legend()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be written: {error}.") from None
