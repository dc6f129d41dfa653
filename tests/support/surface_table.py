"""Calls of NumPy's public functions, to count and to check their support for traced values.

`CASES[name]` is a call of `np.<name>` as a function of float arrays; `EXCLUDED[name]` says why a
public function is not counted. Together they hold every public function of `numpy`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """A call: `f(*args)` with f = np.<name> put into `call`, if there is one."""

    args: tuple[Any, ...]
    call: Callable[..., Any] | None = None
    order: int = 2
    """Up to which order there are derivatives; 0: none, on purpose."""
    vmap: bool = True
    """Whether shapes do not depend on values, so that "
    "there are no examples at once and no Graph."""
    staged: bool = True


def draw(*shape: int, low: float = 0.3, high: float = 0.9, seed: int = 0) -> Any:
    """Numbers in a domain where everything is smooth, no two alike."""
    random = np.random.default_rng((seed, *shape))
    size = int(np.prod(shape, dtype=int))
    grid = low + (high - low) * (np.arange(size) + random.uniform(0.3, 0.7, size)) / max(size, 1)
    return random.permutation(grid).reshape(shape)


V, W, M, N, S, T = (
    draw(5),
    draw(5, seed=1),
    draw(3, 4),
    draw(3, 4, seed=1),
    draw(3, 3),
    draw(2, 3, 4),
)
WIDE = draw(5, low=-2.0, high=2.0)
NAN = np.array([0.4, np.nan, 0.7, 0.2])
EDGES = np.array([0.1, 0.4, 0.6, 1.0])
INT = np.array([2, 0, 1, 2, 0])


def case(*args: Any, **options: Any) -> Case:
    return Case(args, **options)


CASES: dict[str, Case] = {}

# --- ufuncs ---------------------------------------------------------------------------------------

FLAT = (
    "ceil floor trunc rint sign signbit spacing "
    "isnan isinf isfinite logical_not equal not_equal less "
    "less_equal greater greater_equal logical_and logical_or logical_xor floor_divide"
).split()  # fmt: skip
SPECIAL: dict[str, Case] = {
    "arccosh": case(V + 1.0), "acosh": case(V + 1.0),
    "matmul": case(M, draw(4, 2)),
    "matvec": case(M, draw(4)),
    "vecmat": case(draw(3), M),
    "vecdot": case(M, N),
    "ldexp": case(V, call=lambda f, x: f(x, 3)),
    "frexp": case(V, order=2),
    "remainder": case(V + 3.0, W), "mod": case(V + 3.0, W), "fmod": case(V + 3.0, W),
    "divmod": case(V + 3.0, W),
    "nextafter": case(V, W + 1.0),
    "heaviside": case(V, W),
}  # fmt: skip
for _name in np.__all__:
    _function = getattr(np, _name)
    if isinstance(_function, np.ufunc) and any(
        set(t.split("->")[0]) == {"d"} for t in _function.types
    ):
        CASES[_name] = case(*(V, W)[: _function.nin], order=0 if _name in FLAT else 2)
CASES.update({name: c for name, c in SPECIAL.items() if name in np.__all__})

# --- functions of one array by itself -------------------------------------------------------------

for _name in (
    "amax amin average cumprod cumsum cumulative_prod "
    "cumulative_sum diff ediff1d gradient max mean "
    "median min prod ptp std sum trapezoid unwrap var angle clip copy fix flip i0 imag nan_to_num "
    "real sinc ravel reshape squeeze atleast_1d atleast_2d atleast_3d diagflat fliplr flipud rot90 "
    "transpose permute_dims matrix_transpose tril triu "
    "sort sort_complex corrcoef cov trace diagonal "
    "diag nansum nanprod nanmax nanmin nanmean "
    "nanmedian nanvar nanstd nancumsum nancumprod unstack "
    "real_if_close astype hstack vstack dstack "
    "column_stack row_stack concatenate concat stack block "
    "broadcast_arrays"
).split():  # fmt: skip
    if _name in np.__all__:
        CASES[_name] = case(M)
for _name in (
    "all any argmax argmin argsort around round count_nonzero iscomplex isreal isneginf isposinf "
    "nanargmax nanargmin ones_like zeros_like size shape ndim"
).split():
    CASES[_name] = case(M, order=0)
for _name in "argwhere flatnonzero nonzero".split():
    CASES[_name] = case(np.array([0.0, 2.0, 0.0, 1.0]), order=0, vmap=False, staged=False)
for _name in "isclose allclose array_equal array_equiv".split():
    CASES[_name] = case(M, N, order=0)
for _name in "inner vdot convolve correlate kron outer dot polymul polyadd polysub append".split():
    CASES[_name] = case(V, W)
for _name in "hsplit split dsplit vsplit array_split".split():
    CASES[_name] = case(draw(2, 4, 2), call=lambda f, x: f(x, 2))
for _name in "quantile percentile nanquantile nanpercentile".split():
    CASES[_name] = case(M, np.array([0.3, 0.55]), call=lambda f, x, q: f(x, q, axis=1))


def fixed(call: Callable[..., Any], *args: Any, **options: Any) -> Case:
    return Case(args, call, **options)


def concrete(call: Callable[..., Any] | None, *args: Any, order: int = 2) -> Case:
    """A call whose result's shape depends on values."""
    return Case(args, call, order, False, False)


CASES |= {
    "apply_along_axis": fixed(lambda f, x: f(lambda v: v * np.sum(v), 1, x), M),
    "apply_over_axes": fixed(lambda f, x: f(np.sum, x * x, [0, 2]), T),
    "argpartition": fixed(lambda f, x: f(x, 2), V, order=0),
    "asarray_chkfinite": fixed(None, V),
    "bincount": fixed(lambda f, w: f(INT, w), W),
    "broadcast_to": fixed(lambda f, x: f(x, (2, 5)), V),
    "choose": fixed(lambda f, x, y: f(INT % 2, [x, y]), V, W),
    "compress": fixed(lambda f, x: f([True, False, True], x, axis=0), M),
    "cross": fixed(None, draw(2, 3), draw(3, seed=2)),
    "delete": fixed(lambda f, x: f(x, [0, 2]), V),
    "digitize": fixed(lambda f, x: f(x, EDGES), V, order=0),
    "einsum": fixed(lambda f, x, y: f("ij,kj->ik", x, y), M, N),
    "expand_dims": fixed(lambda f, x: f(x, 1), M),
    "extract": fixed(lambda f, x: f(np.array([1, 0, 1, 1, 0]), x), V),
    "full_like": fixed(lambda f, x: f(x, 3.0), M, order=0),
    "geomspace": fixed(lambda f, a, b: f(a, b, 4), np.float64(0.5), np.float64(2.0)),
    "histogram": fixed(lambda f, w: f(V, EDGES, weights=w)[0], W),
    "histogram2d": fixed(lambda f, w: f(V, W, 3, weights=w)[0], W),
    "histogramdd": fixed(lambda f, w: f([V, W], 3, weights=w)[0], W),
    "histogram_bin_edges": fixed(lambda f, x: f(x, 4), V),
    "insert": fixed(lambda f, x, y: f(x, [1, 3], y), V, draw(2)),
    "interp": fixed(None, draw(4, low=0.2, high=1.0), np.sort(EDGES), draw(4, seed=3)),
    "intersect1d": concrete(lambda f, x: f(x, x[1:]), V),
    "isin": fixed(None, V, W, order=0),
    "ix_": fixed(None, INT, INT, order=0),
    "lexsort": fixed(lambda f, x, y: f((x, y)), V, W, order=0),
    "linspace": fixed(lambda f, a, b: f(a, b, 4), np.float64(0.5), np.float64(2.0)),
    "logspace": fixed(lambda f, a, b: f(a, b, 4), np.float64(0.5), np.float64(1.0)),
    "meshgrid": fixed(None, V, W),
    "moveaxis": fixed(lambda f, x: f(x, 0, 2), T),
    "pad": fixed(lambda f, x: f(x, 1), M),
    "partition": fixed(lambda f, x: f(x, 2), V),
    "piecewise": fixed(lambda f, x: f(x, [x > 0.5], [np.sin, np.exp]), V),
    "place": fixed(None),
    "poly": fixed(None, V),
    "polyder": fixed(None, V),
    "polydiv": concrete(None, V, draw(3)),
    "polyfit": fixed(lambda f, y: f(np.arange(5.0), y, 2), V),
    "polyint": fixed(None, V),
    "polyval": fixed(None, V, W),
    "put": fixed(None),
    "repeat": fixed(lambda f, x: f(x, 2), M),
    "resize": fixed(lambda f, x: f(x, (4, 4)), M),
    "roll": fixed(lambda f, x: f(x, 1), M),
    "rollaxis": fixed(lambda f, x: f(x, 2), T),
    "roots": concrete(None, np.array([1.0, -6.0, 11.0, -6.0])),
    "searchsorted": fixed(None, EDGES, V, order=0),
    "select": fixed(lambda f, x: f([x > 0.7, x > 0.5], [np.sin(x), x * x], 1.0), V),
    "setdiff1d": concrete(lambda f, x: f(x, x[1:3]), V),
    "setxor1d": concrete(lambda f, x: f(x, x[1:3] * 1.0), V),
    "swapaxes": fixed(lambda f, x: f(x, 0, 1), M),
    "take": fixed(lambda f, x: f(x, INT, axis=1), M),
    "take_along_axis": fixed(lambda f, x: f(x, np.array([[1], [0], [2]]), 1), M),
    "tensordot": fixed(lambda f, x, y: f(x, y, ([1], [1])), M, N),
    "tile": fixed(lambda f, x: f(x, (2, 1)), M),
    "trim_zeros": concrete(lambda f, x: f(x * np.array([0.0, 1.0, 1.0, 1.0, 0.0])), V),
    "union1d": concrete(None, V, W),
    "unique": concrete(None, V),
    "unique_all": concrete(lambda f, x: f(x)[0], V),
    "unique_counts": concrete(lambda f, x: f(x)[0], V),
    "unique_inverse": concrete(lambda f, x: f(x)[0], V),
    "unique_values": concrete(lambda f, x: np.sort(f(x)), V),
    "vander": fixed(lambda f, x: f(x, 3), V),
    "where": fixed(lambda f, x, y: f(x > 0.5, x, y), V, W),
}
for _name in ("place", "put"):
    del CASES[_name]
CASES["astype"] = fixed(lambda f, x: f(x, np.float64), M)
CASES["reshape"] = fixed(lambda f, x: f(x, (4, 3)), M)
CASES["clip"] = fixed(lambda f, x: f(x, 0.4, 0.8), M)
CASES["cumulative_sum"] = CASES["cumulative_prod"] = fixed(lambda f, x: f(x, axis=1), M)
CASES["broadcast_arrays"] = fixed(None, M, draw(4))
for _name in "nansum nanprod nanmax nanmin nanmean nanmedian nanvar nanstd".split():
    CASES[_name] = fixed(lambda f, x: f(x * np.array([1.0, 1.0, np.nan, 1.0])), draw(4))
for _name in "nancumsum nancumprod".split():
    CASES[_name] = fixed(None, V)
for _name in "concatenate concat stack hstack vstack dstack column_stack row_stack block".split():
    if _name in np.__all__:
        CASES[_name] = fixed(lambda f, x, y: f([x, y]), M, N)
CASES["diag"] = fixed(None, V)

# --- not counted ----------------------------------------------------------------------------------

_GROUPS: dict[str, str] = {
    "make arrays without an array": (
        "arange bartlett blackman diag_indices empty eye fromfunction frombuffer fromfile fromiter "
        "fromregex fromstring genfromtxt hamming hanning identity indices kaiser load loadtxt ones "
        "tri tril_indices triu_indices mask_indices zeros from_dlpack full"
    ),
    "make arrays of lists: work, since fungrad replaces them while a transform runs": (
        "array asanyarray asarray asarray_chkfinite ascontiguousarray asfortranarray asmatrix bmat "
        "require"
    ),
    "makes uninitialised memory: works, with elements that are written afterwards": "empty_like",
    "write into an argument: work": (
        "copyto fill_diagonal place put put_along_axis putmask"
    ),
    "write a file or text": (
        "array2string array_repr array_str base_repr binary_repr format_float_positional "
        "format_float_scientific save savetxt savez savez_compressed info show_config show_runtime"
    ),
    "take integers or booleans alone": (
        "bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or "
        "bitwise_right_shift bitwise_xor gcd invert lcm left_shift right_shift packbits unpackbits "
        "ravel_multi_index unravel_index"
    ),
    "dates": (
        "busday_count busday_offset datetime_as_string datetime_data is_busday isnat"
    ),
    "return no array": (
        "broadcast_shapes can_cast common_type diag_indices_from einsum_path get_include "
        "get_printoptions getbufsize geterr geterrcall iscomplexobj isdtype isfortran isrealobj "
        "isscalar issubdtype iterable may_share_memory min_scalar_type mintypecode printoptions "
        "promote_types result_type set_printoptions setbufsize "
        "seterr seterrcall shares_memory test "
        "tril_indices_from triu_indices_from typename"
    ),
    "make a function or an iterator": "frompyfunc nested_iters",
}  # fmt: skip
EXCLUDED = {name: reason for reason, names in _GROUPS.items() for name in names.split()}
CASES.pop("asarray_chkfinite", None)


def public() -> list[str]:
    """The public functions of NumPy: all that can be called but classes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(
            name
            for name in np.__all__
            if callable(getattr(np, name)) and not isinstance(getattr(np, name), type)
        )
