"""Hypothesis strategies for arrays and for whole programs.

A program is Python source made of plain NumPy calls, smooth by construction, so that finite
differences can judge it; a failing example prints as the source that reproduces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fungrad.errors import MissingExtraError
from fungrad.support.lazy import imported

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def _hypothesis(module: str) -> Any:
    try:
        return imported(module)
    except ImportError as error:
        raise MissingExtraError(
            f"fungrad.testing's strategies need Hypothesis ({error}). Install it with pip install "
            "'fungrad[test]', or pip install hypothesis."
        ) from error


def arrays(
    dtype: Any = np.float64,
    shape: Any = None,
    *,
    min_value: float = -2.0,
    max_value: float = 2.0,
) -> SearchStrategy[Any]:
    """A Hypothesis strategy of arrays of moderate, finite numbers.

    Args:
      dtype: any dtype of numbers or booleans.
      shape: a shape, or a strategy of shapes; by default up to 3 axes of length 0 to 3.
      min_value: the least number, for real and imaginary parts alike.
      max_value: the largest number.

    Raises:
      MissingExtraError: where Hypothesis is not installed.
    """
    st = _hypothesis("hypothesis.strategies")
    extra = _hypothesis("hypothesis.extra.numpy")
    dtype = np.dtype(dtype)
    if shape is None:
        shape = extra.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    width = dtype.itemsize * 8
    if dtype.kind == "f":
        elements = st.floats(min_value, max_value, width=width, allow_subnormal=False)
    elif dtype.kind == "c":
        part = st.floats(min_value, max_value, width=width // 2, allow_subnormal=False)
        elements = st.builds(complex, part, part)
    elif dtype.kind == "b":
        elements = st.booleans()
    else:
        least = max(int(np.ceil(min_value)), int(np.iinfo(dtype).min))
        elements = st.integers(least, int(max_value))
    result: SearchStrategy[Any] = extra.arrays(dtype, shape, elements=elements)
    return result


class Program:
    """A random function of NumPy calls, with arguments for it. Prints as its source.

    Attributes:
      args: a tuple of float64 arrays.
      source: the Python text of the function.
      function: the function, of arrays or traced values.
    """

    def __init__(self, args: Sequence[Any], lines: Sequence[str], output: str) -> None:
        self.args = tuple(args)
        parameters = ", ".join(f"x{i}" for i in range(len(args)))
        body = "".join(f"    {line}\n" for line in lines)
        self.source = f"def program({parameters}):\n{body}    return {output}\n"
        namespace: dict[str, Any] = {"np": np}
        exec(compile(self.source, "<fungrad.testing.programs>", "exec"), namespace)
        self.function: Callable[..., Any] = namespace["program"]

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def __repr__(self) -> str:
        return f"{self.source}args = {self.args!r}"


_UNARY = (
    "np.sin({x})", "np.cos({x})", "np.tanh({x})", "np.arctan({x})", "np.exp(-np.square({x}))",
    "np.sqrt({x} ** 2 + 1.0)", "np.log1p({x} * {x})", "{x} / (1.0 + {x} ** 2)", "-{x}",
    "0.5 * {x} + 1.0",
    "np.tanh({x}) ** 3", "np.arcsinh({x})", "np.abs({x} ** 2 + 1.0)",
    "np.reciprocal(2.0 + np.sin({x}))",
    "np.maximum({x} ** 2 + 1.0, 0.5)", "np.cbrt(1.0 + {x} ** 2)", "{x}.copy()",
    "(3.0 + np.cos({x})) ** 0.5",
)  # fmt: skip
_BINARY = (
    "{x} + {y}", "{x} - {y}", "np.tanh({x}) * {y}", "{x} / (1.0 + {y} ** 2)",
    "np.logaddexp({x}, {y})",
    "np.arctan2({x}, 1.0 + {y} ** 2)", "np.hypot({x}, 1.0 + {y} ** 2)", "np.sin({x}) * np.cos({y})",
    "(1.5 + np.sin({x})) ** np.tanh({y})", "np.where(True, {x}, {y})",
    "np.minimum({x} ** 2, -1.0 - {y} ** 2)",
)  # fmt: skip


def _shape_operations(name: str, shape: tuple[int, ...]) -> Iterator[str]:
    """Expressions that move or reduce the elements of an array of a shape."""
    size = int(np.prod(shape))
    yield f"np.sum({name})"
    yield f"np.reshape({name}, ({size},))"
    yield f"{name}.T"
    yield f"np.expand_dims({name}, 0)"
    yield f"np.stack([{name}, np.sin({name})])"
    if size:
        yield f"np.mean({name})"
    for axis, length in enumerate(shape):
        yield f"np.sum({name}, axis={axis})"
        yield f"np.cumsum({name}, axis={axis - len(shape)})"
        yield f"np.concatenate([{name}, 2.0 * {name}], axis={axis})"
        yield f"np.flip({name}, axis={axis})"
        prefix = ":, " * axis
        yield f"{name}[{prefix}1:]"
        yield f"{name}[{prefix}None]"
        if length:
            yield f"np.mean({name}, axis={axis}, keepdims=True)"
            yield f"{name}[{prefix}-1]"
            yield f"{name}[{prefix}[0, -1, 0]]"
            yield f"np.prod(1.0 + 0.1 * np.tanh({name}), axis={axis})"


def _broadcasts(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    return all(n == m or 1 in (n, m) for n, m in zip(reversed(x), reversed(y), strict=False))


def _fits_matmul(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    if not x or not y:
        return False
    return x[-1] == (y[-2] if len(y) > 1 else y[0]) and _broadcasts(x[:-2], y[:-2])


def programs(
    *,
    max_args: int = 3,
    min_steps: int = 3,
    max_steps: int = 10,
    max_side: int = 3,
    scalar: bool = True,
) -> SearchStrategy[Program]:
    """A Hypothesis strategy of whole random programs: compositions of NumPy calls.

    Args:
      max_args: the largest number of arguments, arrays of doubles with up to 2 axes.
      min_steps: the least number of operations.
      max_steps: the largest number of operations.
      max_side: the greatest length of an argument's axis; one argument in ten may be empty.
      scalar: whether the program returns one number; otherwise an array.

    Returns:
      A strategy of `Program`s. They are smooth everywhere, and their values stay moderate.

    Raises:
      MissingExtraError: where Hypothesis is not installed.
    """
    st = _hypothesis("hypothesis.strategies")
    extra = _hypothesis("hypothesis.extra.numpy")

    def argument(draw: Callable[[Any], Any]) -> Any:
        least = 0 if draw(st.integers(0, 9)) == 9 else 1
        shape = draw(extra.array_shapes(min_dims=0, max_dims=2, min_side=least, max_side=max_side))
        # Numbers from a seed: drawn one by one most of them would be zero.
        return np.random.default_rng(draw(st.integers(0, 999))).uniform(-2.0, 2.0, shape)

    def build(draw: Callable[[Any], Any]) -> Program:
        args = [argument(draw) for _ in range(draw(st.integers(1, max_args)))]
        values: dict[str, Any] = {f"x{i}": arg for i, arg in enumerate(args)}
        lines: list[str] = []
        for step in range(draw(st.integers(min_steps, max_steps))):
            latest_first = list(reversed(values))
            x = draw(st.sampled_from(latest_first))
            expression = draw(st.sampled_from(_choices(x, values)))
            value = eval(expression, {"np": np}, values)
            if np.size(value) <= 64 and np.ndim(value) <= 4:
                values[f"v{step}"] = value
                lines.append(f"v{step} = {expression}")
        last = list(values)[-1]
        used = [last, *draw(st.lists(st.sampled_from(list(values)), max_size=2))]
        total = " + ".join(f"np.sum(np.sin({name}))" for name in used)
        return Program(args, lines, total if scalar else f"np.tanh({last})")

    composite: SearchStrategy[Program] = st.composite(build)()
    return composite


def _choices(x: str, values: dict[str, Any]) -> list[str]:
    """The possible expressions of a variable and the others."""
    result = [template.format(x=x) for template in _UNARY]
    shape = np.shape(values[x])
    result += _shape_operations(x, shape)
    for y, other in values.items():
        if _broadcasts(shape, np.shape(other)):
            result += [template.format(x=x, y=y) for template in _BINARY]
        if _fits_matmul(shape, np.shape(other)):
            result.append(f"np.tanh({x}) @ {y}")
    return result
