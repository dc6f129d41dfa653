"""Methods that ask a traced value for plain numbers: float(), complex(), item() and tolist().

An integer or a boolean gives its own where that is known; a floating or complex number would lose
its derivative, and is refused.
"""

from __future__ import annotations

from typing import Any

from fungrad.errors import AbstractValueError, FungradError
from fungrad.tracing.concrete_answers import whole
from fungrad.tracing.refusals import bound_before, refused_number, refused_store, stored
from fungrad.tracing.trace import Tracer


def _of(x: Tracer, asked: str, answer: Any) -> Any:
    """The answer of a known integer or boolean."""
    if x.dtype.kind in "biu":
        return x.owner.concrete(x, AbstractValueError, asked, answer)
    try:
        x.owner.concrete(x, AbstractValueError, asked, whole)
    except FungradError as error:
        advice = bound_before()
        if advice:
            error.add_note(advice)
        raise
    raise refused_number(x.type, asked)


def _float(self: Tracer) -> float:
    if stored():
        raise refused_store(self.type)
    found: float = _of(self, "float()", float)
    return found


def _complex(self: Tracer) -> complex:
    if stored():
        raise refused_store(self.type)
    found: complex = _of(self, "complex()", complex)
    return found


def _item(self: Tracer, *index: Any) -> Any:
    """The number of an integer or boolean value; refused where it cuts a gradient, as float()."""
    return _of(self, ".item()", lambda value: value.item(*index))


def _tolist(self: Tracer) -> Any:
    """The value as nested lists; refused where that would cut a gradient."""
    return _of(self, ".tolist()", lambda value: value.tolist())


METHODS: dict[str, Any] = {
    "__complex__": _complex,
    "__float__": _float,
    "item": _item,
    "tolist": _tolist,
}

__all__: list[str] = []
