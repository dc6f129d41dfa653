"""Values as expressions of a module that does not import fungrad.

Objects of NumPy and Python are written by name, numbers and short arrays as text; large arrays are
stored in a file, and functions are copied (inlined_functions.py). Other values raise `NotWritable`.

Equations are those of numpy_expressions.py, in a style as if written by hand: `x @ w`,
`np.sum(x, axis=0)`.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import keyword
import re
import sys
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation, Literal
from fungrad.ir.types import Type
from fungrad.primitives.movement.gather import ARRAY
from fungrad.primitives.primitive import Primitive
from fungrad.support.lazy import loaded

LARGE = 200
"""Arrays of more elements are not written as text."""

_HOMES = {"_zeta": "scipy.special", "_riemann_zeta": "scipy.special"}
_LIBRARIES = {"numpy", "scipy"} | sys.stdlib_module_names


class NotWritable(Exception):
    """A value that cannot be written as text."""


class TooLarge(NotWritable):
    """An array that is too large for text."""


def _homes(value: Any) -> list[str]:
    """The names of the modules that may hold a value publicly."""
    if isinstance(value, np.ufunc):
        return ["numpy", "scipy.special"]
    home = getattr(value, "__module__", None) or ""
    builtin = isinstance(value, types.BuiltinFunctionType) or home == "_operator"
    return [home, "operator"] if builtin else [home]


class Values:
    """The imports, the definitions in order of use, and the names taken.

    Attributes:
      arrays: the large arrays by their names; None if they are an error.
    """

    def __init__(self, arrays: dict[str, Any] | None) -> None:
        self.imports: dict[str, str] = {"np": "import numpy as np"}
        self.texts: dict[str, str] = {}
        self.arrays = arrays
        self.taken: set[str] = set()
        self._known: dict[Any, str] = {}
        self._held: list[Any] = []

    # --- names ----------------------------------------------------------------------------------

    def fresh(self, wished: str) -> str:
        """A new name of the module, longer than the letters of local values."""
        wished = re.sub(r"\W", "", wished) or "function"
        wished = wished if not wished[0].isdigit() else f"_{wished}"
        name, count = wished, 1
        while name in self.taken or hasattr(builtins, name) or _short(name):
            count += 1
            name = f"{wished}_{count}"
        self.taken.add(name)
        return name

    def once(self, key: Any, wished: str, *held: Any) -> tuple[str, bool]:
        """The name for a key, and whether it is new and must be defined."""
        if key in self._known:
            return self._known[key], False
        self._known[key] = self.fresh(wished)
        self._held += held
        return self._known[key], True

    def define(self, name: str, text: str) -> None:
        """Adds a definition, after those that it needs."""
        self.texts[name] = text

    # --- values ---------------------------------------------------------------------------------

    def value(self, wished: str, value: Any) -> str:
        """The expression of a value; adds its definition if it needs one."""
        kind = type(value)
        if kind in (bool, int, float, str, bytes, type(None), type(Ellipsis), slice, range):
            return _finite(repr(value)) if kind is float else repr(value)
        if kind is complex:
            return f"complex({_finite(repr(value.real))}, {_finite(repr(value.imag))})"
        if isinstance(value, np.generic):
            return self._scalar(value)
        if kind is tuple:
            return f"({''.join(f'{self.value(wished, item)}, ' for item in value)})"
        if kind is list:
            return f"[{', '.join(self.value(wished, item) for item in value)}]"
        if kind is frozenset:
            return f"frozenset({self.value(wished, tuple(sorted(value, key=repr)))})"
        if kind is dict:
            pairs = (f"{self.value(wished, k)}: {self.value(wished, v)}" for k, v in value.items())
            return f"{{{', '.join(pairs)}}}"
        return self._named(wished, value)

    def _scalar(self, value: Any) -> str:
        if value.dtype.kind not in "fciub" or value.dtype.char == "G":
            raise NotWritable(f"the value {value!r}")
        if value.dtype.kind == "c":
            return f"{self.dtype(value.dtype)}({self.value('c', value.item())})"
        return repr(value) if value.dtype.char == "g" else _finite(repr(value))

    def dtype(self, dtype: np.dtype[Any], boolean: str = "bool") -> str:
        """The text of a dtype as an argument of a NumPy function."""
        if dtype == np.bool_:
            return boolean
        if dtype.kind == "O":
            return "object"
        scalar_class = getattr(np, dtype.name, None)
        if dtype.isnative and isinstance(scalar_class, type) and np.dtype(scalar_class) == dtype:
            return f"np.{dtype.name}"
        return f'np.dtype("{dtype.str}")'

    def dtype_after(self, dtype: np.dtype[Any], argument: str = "") -> str:
        """The last argument of a function that makes an array: "" for float64, its default."""
        return "" if dtype == np.float64 else f", {argument}{self.dtype(dtype)}"

    def _named(self, wished: str, value: Any) -> str:
        if isinstance(value, np.dtype):
            text = self.dtype(value)
            return text if "dtype(" in text else f"np.dtype({text})"
        if isinstance(value, np.ndarray):
            return self.array(wished, value)
        if isinstance(value, Primitive):
            return self.value(value.name, value.eval if value.ufunc is None else value.ufunc)
        if isinstance(value, types.ModuleType):
            return self.module(value)
        if isinstance(value, functools.partial):
            given = [self.value(wished, v) for v in (value.func, *value.args)]
            given += [f"{k}={self.value(k, v)}" for k, v in value.keywords.items()]
            self.imports["functools"] = "import functools"
            return f"functools.partial({', '.join(given)})"
        public_name = self._public(value) or self._public(getattr(value, "__wrapped__", None))
        if public_name:
            return public_name
        if isinstance(value, type):
            return self.type(value)
        plain = inspect.unwrap(value) if callable(value) else value
        if isinstance(plain, types.FunctionType):
            return self.function(wished, plain)
        raise NotWritable(f"{described(value)}, which is not NumPy's")

    def module(self, module: types.ModuleType) -> str:
        """The name under which a module is imported."""
        name = module.__name__
        if name.split(".")[0] == "fungrad":
            raise NotWritable(f"the module {name}")
        if name.split(".")[0] == "numpy":
            return f"np{name[5:]}"
        self.imports[name] = f"import {name}"
        return name

    def _public(self, value: Any) -> str:
        """The public name of a value, such as `np.sin`, `math.sqrt` or `float`; "" if none."""
        name = getattr(value, "__name__", "")
        if getattr(builtins, name, None) is value:
            return str(name)
        ours = (getattr(value, "__module__", None) or "").split(".")[0] == "fungrad"
        if ours and isinstance(value, type) and issubclass(value, BaseException):
            base = next(c for c in value.__mro__ if c.__module__ in ("builtins", "numpy.linalg"))
            return self._public(base if base is not Exception else RuntimeError)
        special: Any = loaded(_HOMES.get(name, "")) if isinstance(value, np.ufunc) else None
        if special is not None and getattr(special._ufuncs, name, None) is value:
            return f"{self.module(special)}.{name.rsplit('_', 1)[1]}"
        for home in _homes(value):
            module = None if home.split(".")[0] in ("fungrad", "__main__") else loaded(home)
            if module is not None and getattr(module, name, None) is value:
                if getattr(module, "__file__", None) is None or home.split(".")[0] in _LIBRARIES:
                    return f"{self.module(module)}.{name}"
        return ""

    # --- arrays ---------------------------------------------------------------------------------

    def array(self, wished: str, value: Any) -> str:
        """The expression of an array: a text if it is short, else a name, read from a file."""
        if value.dtype.hasobject:
            if value.shape == () and value[()] is None:
                return "None"
            raise NotWritable("an array of objects")
        text = self._regular(value)
        if text or value.size <= LARGE:
            return text or self._listed(value)
        if self.arrays is None:
            raise TooLarge(f"an array of {value.size} elements (shape {value.shape})")
        name, new = self.once(("array", id(value)), wished, value)
        if new:
            self.arrays[name] = value
        return name

    def _listed(self, value: Any) -> str:
        dtype, shape = value.dtype, value.shape
        if dtype.char in "gG" or dtype.kind not in "fciub":
            raise NotWritable(f"an array of dtype {dtype}")
        if not value.size:
            return f"np.zeros({shape}{self.dtype_after(dtype)})"
        if dtype.kind == "c":  # Python's literal `1-0j` has no negative zero
            parts = np.ascontiguousarray(value).ravel().view(value.real.dtype)
            return f"{self._listed(parts)}.view({self.dtype(dtype)}).reshape({shape})"
        if dtype.char in "ef":  # 0.1 in place of all digits of the float64
            value = np.array([float(str(x)) for x in value.ravel()]).reshape(shape)
        last = "" if dtype in (np.int64, np.bool_) else self.dtype_after(dtype)
        return f"np.array({_finite(repr(value.tolist()))}{last})"

    def _regular(self, value: Any) -> str:
        """`np.eye(3)`, `np.arange(5.0)`, `np.full(...)` if the array has the same bits; or ""."""
        if value.size < 3 or value.dtype.kind not in "fiu" or value.dtype.char == "g":
            return ""
        shape, n = shape_text(value.shape), value.shape[0]
        last, named = self.dtype_after(value.dtype), self.dtype_after(value.dtype, "dtype=")
        end = float(value.size) if value.dtype == np.float64 else value.size
        first = _finite(repr(value.ravel()[0].item()))
        texts = [f"np.zeros({shape}{last})", f"np.ones({shape}{last})"]
        texts += [f"np.full({shape}, {first}{last})", f"np.arange({end}{named})"]
        texts += [f"np.eye({n}{named})"] * (value.size == n * n)
        for text in texts:
            made = eval(text, {"np": np})
            if made.tobytes() == value.tobytes():
                return text if made.shape == value.shape else f"{text}.reshape({value.shape})"
        return ""

    # --- the style of expressions: see `Names` of numpy_expressions.py --------------------------

    def constant(self, wished: str, value: Any) -> str:
        return self.value(wished, value).replace("{", "{{").replace("}", "}}")

    def number(self, dtype: np.dtype[Any]) -> str:
        return self.dtype(dtype, "np.bool_")

    def filled(self, function: str, type_: Type, *values: Any) -> str:
        last = self.dtype_after(type_.dtype)
        if values and not (type(values[0]) is float and not last):
            last = f", {self.dtype(type_.dtype)}"
        given = [shape_text(type_.shape), *[self.value("c", value) for value in values]]
        return f"np.{function}({', '.join(given)}{last})"

    def part(self, x: str, entries: Sequence[Any], arrays: Sequence[str]) -> str:
        return f"{x}[{index_text(entries, arrays)}]"

    def reduced(self, x: str, type_: Type, ufunc: np.ufunc, axes: tuple[int, ...]) -> str:
        function = None if type_.weak else _REDUCTIONS.get(ufunc)
        axis = axes[0] if len(axes) == 1 else axes
        called = f"{self.constant(ufunc.__name__, ufunc)}.reduce"
        if len(axes) == type_.ndim:
            return f"{called}({x}, None)" if function is None else f"np.{function}({x})"
        return f"{called}({x}, {axis})" if function is None else f"np.{function}({x}, axis={axis})"

    def product(self, equation: Equation, arguments: Sequence[str]) -> str | None:
        x, y = (atom.type for atom in equation.inputs)
        contract, batch = equation.params["contract"], equation.params["batch"]
        if not batch[0] and len(contract[0]) == 1 and {x.ndim, y.ndim} <= {1, 2}:
            left = arguments[0] if contract[0][0] == x.ndim - 1 else f"{arguments[0]}.T"
            right = arguments[1] if contract[1][0] == 0 else f"{arguments[1]}.T"
            return f"{left} @ {right}"
        if x.weak or y.weak:
            return None
        letters = iter("abcdefghijklmnopqrstuvwxyz")
        first = [next(letters) for _ in range(x.ndim)]
        second = [next(letters) for _ in range(y.ndim)]
        for i, j in (*zip(*batch, strict=True), *zip(*contract, strict=True)):
            second[j] = first[i]
        free = [first[i] for i in range(x.ndim) if i not in (*batch[0], *contract[0])]
        free += [second[j] for j in range(y.ndim) if j not in (*batch[1], *contract[1])]
        out = "".join([*(first[i] for i in batch[0]), *free])
        spec = f"{''.join(first)},{''.join(second)}->{out}"
        return f'np.einsum("{spec}", {", ".join(arguments)}, optimize=True)'

    # --- definitions of inlined_functions.py ------------------------------------------------------

    def function(self, wished: str, function: Any) -> str:
        """Adds the definition of a function; returns its name."""
        raise NotImplementedError

    def type(self, type_: Any) -> str:
        """Adds the definition of a class; returns its name."""
        raise NotImplementedError


def _short(name: str) -> bool:
    """Whether a name may be that of a local value, or is a keyword."""
    return keyword.iskeyword(name) or re.fullmatch("[a-z]{1,3}", name) is not None


def _finite(text: str) -> str:
    """The text of floats, with NumPy's names for nan and inf."""
    return re.sub(r"\b(nan|inf)\b", r"np.\1", text)


def described(value: Any) -> str:
    """A value as named in messages, without its address."""
    name = getattr(value, "__qualname__", None) or getattr(value, "name", None)
    return f"`{name}`" if type(name) is str else f"a {type(value).__name__}"


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as an argument of a call: `3` for one axis."""
    return str(shape[0]) if len(shape) == 1 else str(shape)


_REDUCTIONS: dict[Any, str] = {
    np.add: "sum", np.maximum: "max", np.minimum: "min", np.logical_or: "any",
    np.logical_and: "all",
}  # fmt: skip
"""NumPy's name for a reduction by a ufunc."""


def literal(atom: Literal, others: Sequence[Any], values: Values) -> str:
    """The text of a literal: a plain number if it promotes as a Python number does."""
    value: Any = atom.value
    if type(value) is np.float64 and any(
        not t.weak and t.dtype == np.float64 for t in others
    ):  # fmt: skip
        value = float(value)
    text = values.value("c", value)
    return f"({text})" if text.startswith("-") else text


def index_text(entries: Sequence[Any], arrays: Sequence[str] = ()) -> str:
    """An index as in source: `1:, None`."""
    given = iter(arrays)
    return ", ".join([next(given) if e == ARRAY else _entry(e) for e in entries]) or "()"


def _entry(entry: Any) -> str:
    if isinstance(entry, slice):
        parts = [entry.start, entry.stop] + ([] if entry.step is None else [entry.step])
        return ":".join("" if part is None else str(part) for part in parts)
    return "..." if entry is Ellipsis else repr(entry)
