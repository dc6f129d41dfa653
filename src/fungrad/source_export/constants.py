"""Values as expressions of a module that knows nothing of fungrad.

NumPy's and Python's own go by their names, numbers and arrays are written out, large arrays kept
beside, functions copied (inlined_functions.py). What cannot be written raises `NotWritable`.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import keyword
import re
import sys
import types
from typing import Any

import numpy as np

from fungrad.primitives.primitive import Primitive

LARGE = 200
"""Arrays of more elements are not written as text."""

_BUILTINS = frozenset(dir(builtins))
_HOMES = {"_zeta": "scipy.special", "_riemann_zeta": "scipy.special"}


class NotWritable(Exception):
    """A value that has no text of its own."""


class TooLarge(NotWritable):
    """An array that does not belong into a text."""


class Values:
    """The imports, the definitions in the order they are needed in, and the names taken.

    Attributes:
      arrays: the large arrays by their names, where they may be kept beside; else None.
    """

    def __init__(self, arrays: dict[str, Any] | None) -> None:
        self.imports: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.arrays = arrays
        self.taken: set[str] = set()
        self._known: dict[Any, str] = {}
        self._held: list[Any] = []

    # --- names ----------------------------------------------------------------------------------

    def fresh(self, wished: str) -> str:
        """A name of the module that no other has: no letters, which are those of values."""
        wished = re.sub(r"\W", "", wished) or "function"
        wished = wished if not wished[0].isdigit() else f"_{wished}"
        name, count = wished, 1
        while name in self.taken or name in _BUILTINS or short(name):
            count += 1
            name = f"{wished}_{count}"
        self.taken.add(name)
        return name

    def once(self, key: Any, wished: str, *held: Any) -> tuple[str, bool]:
        """The name for a key, and whether it is new and has still to be defined."""
        if key in self._known:
            return self._known[key], False
        self._known[key] = self.fresh(wished)
        self._held += held
        return self._known[key], True

    def define(self, name: str, text: str) -> None:
        """Puts a definition behind all that it needs."""
        self.texts[name] = text

    # --- values ---------------------------------------------------------------------------------

    def value(self, wished: str, value: Any) -> str:
        """The expression that stands for a value; its definition is added where it needs one."""
        if isinstance(value, np.generic):
            return self._scalar(value)
        if type(value) in (bool, int, str, bytes, type(None)):
            return _quoted(value) if type(value) is str else repr(value)
        if type(value) in (float, complex):
            return self._number(value)
        if value is Ellipsis:
            return "..."
        if type(value) in (tuple, list):
            inner = ", ".join(self.value(wished, item) for item in value)
            if type(value) is list:
                return f"[{inner}]"
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if type(value) is slice:
            return f"slice({', '.join(map(repr, (value.start, value.stop, value.step)))})"
        if type(value) is range:
            return repr(value)
        if type(value) is frozenset:
            return f"frozenset({self.value(wished, tuple(sorted(value, key=repr)))})"
        if type(value) is dict:
            pairs = (f"{self.value(wished, k)}: {self.value(wished, v)}" for k, v in value.items())
            return f"{{{', '.join(pairs)}}}"
        return self._named(wished, value)

    def _number(self, value: Any) -> str:
        if type(value) is complex:
            return f"complex({self._number(value.real)}, {self._number(value.imag)})"
        if value != value:
            return f"{self.np()}.nan"
        if value in (float("inf"), -float("inf")):
            return f"{'-' * (value < 0)}{self.np()}.inf"
        return repr(value)

    def _scalar(self, value: Any) -> str:
        if value.dtype.kind not in "fciub" or value.dtype.char == "G":
            raise NotWritable(f"the value {value!r}")
        if value.dtype.char == "g":
            return f'{self.np()}.longdouble("{value!s}")'
        if value.dtype.char in "ef" and np.isfinite(value):
            return f"{self.dtype(value.dtype)}({value!s})"
        return f"{self.dtype(value.dtype, 'np.bool_')}({self.value('c', value.item())})"

    def dtype(self, dtype: np.dtype[Any], boolean: str = "bool") -> str:
        """What one writes for a dtype in a call of NumPy."""
        np_ = self.np()
        if dtype == np.bool_:
            return boolean
        if dtype.kind == "O":
            return "object"
        found = getattr(np, dtype.name, None)
        if dtype.isnative and isinstance(found, type) and np.dtype(found) == dtype:
            return f"{np_}.{dtype.name}"
        return f'{np_}.dtype("{dtype.str}")'

    def _named(self, wished: str, value: Any) -> str:
        if isinstance(value, np.dtype):
            text = self.dtype(value, "bool")
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
        found = self._public(value) or self._public(getattr(value, "__wrapped__", None))
        if found:
            return found
        if isinstance(value, type):
            return self.type(value)
        plain = inspect.unwrap(value) if callable(value) else value
        if isinstance(plain, types.FunctionType):
            return self.function(wished, plain)
        raise NotWritable(f"{described(value)}, which is no NumPy")

    def np(self) -> str:
        """NumPy's name."""
        return self.module(np)

    def module(self, module: types.ModuleType) -> str:
        """The name under which a module is imported."""
        name = module.__name__
        if name.split(".")[0] == "fungrad":
            raise NotWritable(f"the module {name}")
        if name.split(".")[0] == "numpy":
            self.imports["np"] = "import numpy as np"
            return f"np{name[5:]}"
        self.imports[name] = f"import {name}"
        return name

    def _public(self, value: Any) -> str:
        """`np.sin`, `math.sqrt`, `float`: what can be reached by name."""
        name = getattr(value, "__name__", "")
        if getattr(builtins, name, None) is value:
            return str(name)
        ours = (getattr(value, "__module__", None) or "").split(".")[0] == "fungrad"
        if ours and isinstance(value, type) and issubclass(value, BaseException):
            base = next(c for c in value.__mro__ if c.__module__ in ("builtins", "numpy.linalg"))
            return self._public(base if base is not Exception else RuntimeError)
        if isinstance(value, np.ufunc):
            if name in _HOMES:
                return f"{self.module(sys.modules[_HOMES[name]])}.{name.rsplit('_', 1)[1]}"
            homes = ["numpy", "scipy.special"]
        else:
            homes = [getattr(value, "__module__", None) or ""]
        if isinstance(value, types.BuiltinFunctionType) or homes == ["_operator"]:
            homes.append("operator")
        for home in homes:
            module = None if home.split(".")[0] == "fungrad" else sys.modules.get(home)
            if module is not None and home != "__main__" and getattr(module, name, None) is value:
                if getattr(module, "__file__", None) is None or _installed(home):
                    return f"{self.module(module)}.{name}"
        return ""

    # --- arrays ---------------------------------------------------------------------------------

    def array(self, wished: str, value: Any) -> str:
        """An array: short ones as text, large ones by name, read from the file beside."""
        if value.dtype.hasobject:
            if value.shape == () and value[()] is None:
                return "None"
            raise NotWritable("an array of objects")
        short_text = self._regular(value)
        if short_text or value.size <= LARGE:
            return short_text or self._listed(value)
        if self.arrays is None:
            raise TooLarge(f"an array of {value.size} elements (shape {value.shape})")
        name, new = self.once(("array", id(value)), wished, value)
        if new:
            self.arrays[name] = value
        return name

    def _listed(self, value: Any) -> str:
        if value.dtype.char in "gG" or value.dtype.kind not in "fciub":
            raise NotWritable(f"an array of dtype {value.dtype}")
        brief = value.dtype.char in "ef"
        flat = value.ravel() if brief else value.ravel().tolist()
        if value.dtype.kind in "fc":
            items = [self._number(float(str(x)) if brief else x) for x in flat]
        else:
            items = [repr(x) for x in flat]
        inferred = value.dtype in (np.float64, np.int64, np.complex128, np.bool_)
        dtype = "" if inferred and value.size else f", {self.dtype(value.dtype)}"
        text = f"np.array({_nested(items, value.shape)}{dtype})"
        return text if value.size else f"np.zeros({value.shape}{dtype})"

    def _regular(self, value: Any) -> str:
        """`np.eye(3)`, `np.arange(5.0)`, `np.full(...)`, where an array is that to the bit."""
        self.np()
        if value.size < 3 or value.dtype.kind not in "fiu" or value.dtype.char == "g":
            return ""
        bits, first = value.tobytes(), value.ravel()[0]
        dtype = "" if value.dtype == np.float64 else f", {self.dtype(value.dtype)}"
        if bits == np.full(value.shape, first, value.dtype).tobytes():
            if first in (0, 1) and not np.signbit(first):
                return f"np.{'ones' if first else 'zeros'}({shape_text(value.shape)}{dtype})"
            return f"np.full({shape_text(value.shape)}, {self._number(first.item())}{dtype})"
        n = value.shape[0]
        kind = f", dtype={dtype[2:]}" if dtype else ""
        folded = f".reshape({value.shape})"
        if value.size == n * n and bits == np.eye(n, dtype=value.dtype).tobytes():
            return f"np.eye({n}{kind})" + (folded if value.ndim != 2 else "")
        if bits == np.arange(value.size, dtype=value.dtype).tobytes():
            end = float(value.size) if value.dtype == np.float64 else value.size
            return f"np.arange({end}{kind})" + (folded if value.ndim != 1 else "")
        return ""

    # --- what inlined_functions.py writes
    # ------------------------------------------------------------------

    def function(self, wished: str, function: Any) -> str:
        """The name of a function, whose text is added."""
        raise NotImplementedError

    def type(self, type_: Any) -> str:
        """The name of a class, whose text is added."""
        raise NotImplementedError


def short(name: str) -> bool:
    """Whether a name is one that values may get."""
    return keyword.iskeyword(name) or re.fullmatch("[a-z]{1,3}", name) is not None


def _installed(home: str) -> bool:
    return home.split(".")[0] in {"numpy", "scipy"} | sys.stdlib_module_names


def described(value: Any) -> str:
    """A value in messages, without its address."""
    name = getattr(value, "__qualname__", None) or getattr(value, "name", None)
    return f"`{name}`" if type(name) is str else f"a {type(value).__name__}"


def _quoted(text: str) -> str:
    shown = repr(text)
    if shown[0] == "'" and '"' not in shown:
        return f'"{shown[1:-1]}"'
    return shown


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as one writes it in a call: `3` for one axis."""
    return str(shape[0]) if len(shape) == 1 else str(shape)


def _nested(items: list[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return items[0]
    width = len(items) // shape[0] if shape[0] else 0
    rows = [_nested(items[i * width : (i + 1) * width], shape[1:]) for i in range(shape[0])]
    return f"[{', '.join(rows)}]"


__all__ = ["LARGE", "NotWritable", "TooLarge", "Values", "described", "shape_text", "short"]
