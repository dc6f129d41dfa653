"""Primitives in arithmetic of many digits, on arrays of mpmath's numbers (dtype object).

Operations that move, select or add numbers run as they are: NumPy applies Python's operators to
objects. Functions and algorithms of linear algebra have their counterparts in mpmath here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import MissingExtraError

Array = np.ndarray[Any, Any]


def mpmath() -> Any:
    """The module mpmath.

    Raises:
      MissingExtraError: if it is not installed.
    """
    try:
        import mpmath as found
    except ImportError:
        raise MissingExtraError(
            "fg.digits with check=True needs mpmath: pip install 'fungrad[digits]'."
        ) from None
    return found


def lifted(value: Any) -> Any:
    """The same numbers as an array of objects of mpmath."""
    mp = mpmath()
    array = np.asarray(value)
    number = mp.mpc if array.dtype.kind == "c" else mp.mpf
    python = complex if array.dtype.kind == "c" else float
    numbers = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        numbers[index] = number(python(array[index]))
    return numbers[()]  # no array of one object, which NumPy would nest


def lowered(exact: Any, dtype: Any) -> Any:
    """The nearest numbers of a dtype."""
    dtype = np.dtype(dtype)
    python = complex if dtype.kind == "c" else float
    array = np.asarray(exact, object)
    numbers = np.empty(array.shape, dtype)
    for index in np.ndindex(array.shape):
        numbers[index] = python(array[index])
    return numbers


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    mp = mpmath()

    def call(*values: Any) -> Any:
        try:
            return function(*values)
        except (ValueError, ZeroDivisionError, OverflowError):  # a pole, or outside of the domain
            return mp.nan

    return call


def functions() -> dict[str, Callable[..., Any]]:
    """By the name of an elementwise primitive: its function of numbers of mpmath."""
    mp = mpmath()
    half = mp.mpf(1) / 2

    def normal_cdf(x: Any) -> Any:
        return mp.erfc(-x / mp.sqrt(2)) * half

    def logaddexp(x: Any, y: Any) -> Any:
        return mp.log(mp.exp(x) + mp.exp(y))

    def cbrt(x: Any) -> Any:
        return mp.sign(x) * mp.cbrt(abs(x))

    return {
        "exp2": lambda x: mp.power(2, x),
        "log2": lambda x: mp.log(x, 2),
        "cbrt": cbrt,
        "logaddexp": logaddexp,
        "logaddexp2": lambda x, y: mp.log(mp.power(2, x) + mp.power(2, y), 2),
        "exp_difference": lambda x, y: mp.exp(x - y),
        "exp2_difference": lambda x, y: mp.power(2, x - y),
        "square": lambda x: x * x,
        "reciprocal": lambda x: 1 / mp.mpmathify(x),
        "arctan2": mp.atan2,
        "deg2rad": mp.radians,
        "rad2deg": mp.degrees,
        "normal_cdf": normal_cdf,
        "ndtr": normal_cdf,
        "log_ndtr": lambda x: mp.log(normal_cdf(x)),
        "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x),
        "gammaln": mp.loggamma,
        "expit": lambda x: 1 / (1 + mp.exp(-x)),
        "logit": lambda x: mp.log(x / (1 - x)),
        "log_expit": lambda x: -mp.log1p(mp.exp(-x)),
        "jv": mp.besselj,
        "yv": mp.bessely,
        "iv": mp.besseli,
        "kv": mp.besselk,
        "j0": lambda x: mp.besselj(0, x),
        "j1": lambda x: mp.besselj(1, x),
        "i0": lambda x: mp.besseli(0, x),
        "i1": lambda x: mp.besseli(1, x),
        "real": mp.re,
        "imag": mp.im,
        "conj": mp.conj,
        "complex_of": lambda x, y: mp.mpc(x, y),
        "power": mp.power,
        "abs": abs,
        "fabs": abs,
        "sign": mp.sign,
        "remainder": lambda x, y: x - y * mp.floor(x / y),
        **{name: getattr(mp, name) for name in _SAME_NAME},
        **{f"arc{name}": getattr(mp, f"a{name}") for name in _INVERSE},
    }


_SAME_NAME = (
    "exp", "expm1", "log", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot",
    "sqrt", "erf", "erfc", "erfi", "erfinv", "gamma", "digamma",
)  # fmt: skip
_INVERSE = ("sin", "cos", "tan", "sinh", "cosh", "tanh")


def _matrices(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of matrices of mpmath, for each index of leading axes."""
    mp = mpmath()

    def matrix(a: Array) -> Any:
        return mp.matrix(a.tolist())

    def array(found: Any) -> Array:
        if not isinstance(found, mp.matrix):
            return np.array(found, object)
        result = np.empty((found.rows, found.cols), object)
        for i in range(found.rows):
            for j in range(found.cols):
                result[i, j] = found[i, j]
        return result

    def call(*operands: Any) -> Any:
        lead = np.broadcast_shapes(*[x.shape[:-2] for x in operands])
        whole = [np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in operands]
        results = {}
        for index in np.ndindex(*lead):
            results[index] = array(function(*[matrix(x[index]) for x in whole]))
        first = results[(0,) * len(lead)]
        stacked = np.empty((*lead, *first.shape), object)
        for index, found in results.items():
            stacked[index] = found
        return stacked

    return call


def algorithms() -> dict[str, Callable[..., Any]]:
    """By the name of a primitive of linear algebra: its function of arrays."""
    mp = mpmath()

    def solve(a: Any, b: Any, **_: Any) -> Any:
        if b.ndim == a.ndim - 1:
            return _matrices(lambda m, v: mp.lu_solve(m, v))(a, b[..., None])[..., 0]

        def columns(m: Any, v: Any) -> Any:
            matrix = mp.matrix(v.rows, v.cols)
            inverse = mp.inverse(m)
            product = inverse * v
            for i in range(v.rows):
                for j in range(v.cols):
                    matrix[i, j] = product[i, j]
            return matrix

        return _matrices(columns)(a, b)

    def cholesky(a: Any, **_: Any) -> Any:
        return _matrices(mp.cholesky)(a)

    def slogdet(a: Any, **_: Any) -> Any:
        determinant = _matrices(mp.det)(a)
        size = np.frompyfunc(abs, 1, 1)(determinant)
        return determinant / size, np.frompyfunc(mp.log, 1, 1)(size)

    def reduce_logaddexp(x: Any, *, axes: Any) -> Any:
        total = np.add.reduce(np.frompyfunc(mp.exp, 1, 1)(x), axis=axes)
        return np.frompyfunc(mp.log, 1, 1)(total)

    def qr(a: Any, **_: Any) -> Any:
        count = min(a.shape[-2:])
        q = _matrices(lambda m: mp.qr(m)[0])(a)[..., :, :count]
        r = _matrices(lambda m: mp.qr(m)[1])(a)[..., :count, :]
        return q, r

    return {
        "solve": solve,
        "inv": lambda a, **_: _matrices(mp.inverse)(a),
        "det": lambda a, **_: _matrices(mp.det)(a),
        "slogdet": slogdet,
        "cholesky": cholesky,
        "qr": qr,
        "reduce_logaddexp": reduce_logaddexp,
    }


class Operations:
    """Applies primitives to arrays of many digits.

    Attributes:
      doubtful: the names of the primitives that were computed in the program's own precision.
    """

    def __init__(self) -> None:
        self._functions = {
            name: np.frompyfunc(_guarded(f), _arity(name), 1) for name, f in functions().items()
        }
        self._algorithms = algorithms()
        self.doubtful: set[str] = set()

    def apply(
        self, primitive: Any, exact: Sequence[Any], params: dict[str, Any], output: Any
    ) -> tuple[Any, ...]:
        """The outputs of a primitive for exact operands.

        Args:
          primitive: the operation.
          exact: its operands: arrays of objects, or of integers and truth values as they are.
          params: its parameters.
          output: what the program computed: a tuple of its outputs.
        """
        known = self._functions.get(primitive.name)
        if known is not None and not params:
            return (known(*exact),)
        algorithm = self._algorithms.get(primitive.name)
        if algorithm is not None:
            result = algorithm(*exact, **params)
            return result if isinstance(result, tuple) else (result,)
        if primitive.name in _ROUNDERS:
            return (np.frompyfunc(getattr(mpmath(), _ROUNDERS[primitive.name]), 1, 1)(exact[0]),)
        if primitive.name in ("convert", "to_discrete", "number"):
            return (exact[0],)
        if primitive.name == "dot_general":
            return (_product(*exact, **params),)
        try:
            result = primitive.eval(*exact, **params)
        except (TypeError, ValueError, AttributeError, AssertionError, NotImplementedError):
            return self._in_double(primitive, exact, params, output)
        result = tuple(result) if primitive.multiple else (result,)
        if all(np.shape(f) == np.shape(o) for f, o in zip(result, output, strict=True)):
            return result
        return self._in_double(primitive, exact, params, output)

    def _in_double(
        self, primitive: Any, exact: Sequence[Any], params: dict[str, Any], output: Any
    ) -> tuple[Any, ...]:
        self.doubtful.add(primitive.name)
        kinds = [o for o in output if np.asarray(o).dtype.kind in "fc"]
        dtype = np.result_type(*[np.asarray(k).dtype for k in kinds]) if kinds else np.float64
        args = [lowered(x, dtype) if np.asarray(x).dtype == object else x for x in exact]
        result = primitive.eval(*args, **params)
        return tuple(map(lifted, result)) if primitive.multiple else (lifted(result),)


_ROUNDERS = {"rint": "nint", "floor": "floor", "ceil": "ceil"}


def _arity(name: str) -> int:
    two = ("logaddexp", "logaddexp2", "exp_difference", "exp2_difference", "arctan2", "jv", "yv",
           "iv", "kv", "complex_of", "power", "remainder", "hypot")  # fmt: skip
    return 2 if name in two else 1


def _product(x: Any, y: Any, *, contract: Any, batch: Any) -> Any:
    """The sums of products of arrays of objects: the axes as those of dot_general."""
    x, y = np.asarray(x, object), np.asarray(y, object)
    count = len(batch[0])
    rest_x = [i for i in range(x.ndim) if i not in contract[0] and i not in batch[0]]
    rest_y = [i for i in range(y.ndim) if i not in contract[1] and i not in batch[1]]
    a = np.transpose(x, (*batch[0], *rest_x, *contract[0]))
    b = np.transpose(y, (*batch[1], *rest_y, *contract[1]))
    inner = len(contract[0])
    lead = a.shape[:count]
    free_a, free_b = a.shape[count : a.ndim - inner], b.shape[count : b.ndim - inner]
    size = int(np.prod(a.shape[a.ndim - inner :], dtype=int))
    rows = a.reshape((*lead, int(np.prod(free_a, dtype=int)), 1, size))
    columns = b.reshape((*lead, 1, int(np.prod(free_b, dtype=int)), size))
    return np.sum(rows * columns, axis=-1).reshape((*lead, *free_a, *free_b))
