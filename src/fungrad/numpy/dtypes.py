"""What NumPy says of the dtypes of traced values. Knows types, and computes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.numpy.protocol.implements import implements
from fungrad.numpy.protocol.operands import array_of
from fungrad.tracing.trace import Tracer, typeof


def _stand_in(value: Any) -> Any:
    """A dtype in place of a traced value, a Python number in place of a weak one."""
    if type(value) is not Tracer:
        return value
    type_ = typeof(value)
    return type_.zeros() if type_.weak else type_.dtype


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype that NumPy promotes the arguments to, as np.result_type."""
    return np.result_type(*[_stand_in(x) for x in arrays_and_dtypes])


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether a cast is allowed by a casting rule, as np.can_cast."""
    return np.can_cast(typeof(from_).dtype if type(from_) is Tracer else from_, to, casting)


@implements(np.common_type)
def common_type(*arrays: Any) -> Any:
    """The inexact scalar type that the arrays have in common, as np.common_type."""
    return np.common_type(*[np.empty(0, array_of(x).dtype) for x in arrays])


@implements(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex, as np.iscomplexobj."""
    return bool(array_of(x).dtype.kind == "c")


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex, as np.isrealobj."""
    return bool(array_of(x).dtype.kind != "c")


__all__ = ["can_cast", "common_type", "iscomplexobj", "isrealobj", "result_type"]
