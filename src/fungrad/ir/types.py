"""The Type of a value: its shape and dtype, known before it is computed.

A `Type` is a shape, a dtype, and a weak bit. Weak means that at run time the value is a Python
scalar, which promotes as NumPy (NEP 50) promotes Python scalars: `float32_array * 2.0` stays
float32.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from fungrad.ir.canonical import DOUBLE, canonical_dtype, own_arithmetic, refused_arithmetic

SHORT_NAMES = {
    "float16": "f16", "float32": "f32", "float64": "f64", "longdouble": "f80",
    "complex64": "c64", "complex128": "c128", "clongdouble": "c160",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool",
}  # fmt: skip

PYTHON_SCALARS = (float, int, bool, complex)
PYTHON_DTYPES = {
    float: np.dtype(np.float64),
    int: np.dtype(np.int64),
    bool: np.dtype(np.bool_),
    complex: np.dtype(np.complex128),
}
PYTHON_KINDS = {dtype.kind: scalar for scalar, dtype in PYTHON_DTYPES.items()}
"""The Python classes of numbers, by the kinds of their dtypes."""


class Type:
    """The shape, dtype and weak bit of a value. Immutable, hashable. The dtype is canonical.

    `str` omits the weak bit, `repr` shows it.

    >>> Type((3, 2), np.dtype("float32")), Type((), np.dtype("float64"), weak=True)
    (f32[3,2], f64[] (weak))
    >>> print(Type((), np.dtype("float64"), weak=True))
    f64[]
    """

    __slots__ = ("dtype", "shape", "weak")

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak: bool

    def __init__(self, shape: tuple[int, ...], dtype: Any, weak: bool = False) -> None:
        _write_shape(self, shape)
        _write_dtype(self, canonical_dtype(dtype))
        _write_weak(self, weak)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A Type is immutable; {name} cannot be set.")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Type)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak == other.weak
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Type, (self.shape, self.dtype, self.weak))

    def __str__(self) -> str:
        name = SHORT_NAMES.get(self.dtype.name, self.dtype.name)
        return f"{name}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        return f"{self} (weak)" if self.weak else str(self)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for length in self.shape:
            size *= length
        return size

    @property
    def nbytes(self) -> int:
        """The number of bytes of the elements."""
        return self.size * self.dtype.itemsize

    @property
    def weak_type(self) -> bool:
        """The weak bit, by JAX's name."""
        return self.weak

    @property
    def inexact(self) -> bool:
        """Whether the dtype is floating or complex, so that a derivative has a meaning."""
        return self.dtype.kind in "fc"

    def with_shape(self, shape: tuple[int, ...]) -> Type:
        """A strong Type of the same dtype and another shape."""
        return Type(shape, self.dtype)

    def zeros(self) -> Any:
        """A concrete zero of this Type: a Python scalar if weak, otherwise an ndarray."""
        return self.dtype.type(0).item() if self.weak else np.zeros(self.shape, self.dtype)


class _AnyType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Type)


class ShapeDtypeStruct(Type, metaclass=_AnyType):
    """A Type by JAX's name and arguments, for `eval_shape` and `make_jaxpr`.

    Args:
      shape: a sequence of integers. dtype: anything that np.dtype takes.
      sharding: None; fungrad runs on one machine. weak_type: whether it is a Python number.

    Raises:
      TypeError: for a sharding.

    >>> ShapeDtypeStruct((3, 2), np.float32) == Type((3, 2), np.float32)
    True
    """

    __slots__ = ()

    def __init__(
        self, shape: Iterable[Any], dtype: Any, *, sharding: None = None, weak_type: bool = False
    ) -> None:
        if sharding is not None:
            raise TypeError("ShapeDtypeStruct takes no sharding: fungrad runs on one machine.")
        super().__init__(tuple(map(operator.index, shape)), dtype, weak_type)


# Reverse mode makes a Type for each value that it does not keep: the slots' setters bypass
# __setattr__, in half the time of object.__setattr__.
_write_shape = vars(Type)["shape"].__set__
_write_dtype = vars(Type)["dtype"].__set__
_write_weak = vars(Type)["weak"].__set__


def size_in_bytes(types: Iterable[Type]) -> int:
    """The bytes that values of these types take."""
    return sum(t.nbytes for t in types)


def of_value(value: Any) -> Type:
    """The Type of a concrete value: an ndarray, a NumPy scalar or a Python scalar.

    Raises:
      TypeError: if the value is none of these.
      ArgumentError: if it is an array whose class has its own arithmetic.
    """
    if type(value) is np.ndarray:
        dtype = value.dtype
        return of_doubles(value.shape)[0] if dtype is DOUBLE else Type(value.shape, dtype)
    known = _OF_SCALARS.get(type(value))
    if known is not None:
        return known
    kind = type(value)
    if issubclass(kind, np.ndarray) and own_arithmetic(value):
        raise refused_arithmetic(value)
    if issubclass(kind, (np.ndarray, np.generic)):
        return Type(value.shape, value.dtype)
    raise TypeError(f"{value!r} of type {type(value).__name__} is not an array or a number.")


_OF_SCALARS: dict[type, Type] = {
    **{scalar: Type((), dtype, True) for scalar, dtype in PYTHON_DTYPES.items()},
    **{s: Type((), s) for s in (np.float64, np.float32, np.int64, np.bool_, np.complex128)},
}


@functools.lru_cache(maxsize=4096)
def of_doubles(shape: tuple[int, ...]) -> tuple[Type]:
    """The Type of float64 arrays of a shape, in a tuple that all of them share: reverse mode needs
    it for each array that it drops, and a long tape adds no objects for the garbage collector.
    """
    return (Type(shape, DOUBLE),)
