"""The text of a traced value: it can be shown, and code that computes with it gets the number's.

`print(x)` under a transform shows what the value is, `Tracer(f64[3], jit of ...)`. `len(str(x))` or
`str(x) == "1.0"` would compute with these words. Here each such question is asked of the text of
the number: under `jit` the answer is guarded as a branch. A number that is read from the text, or
from a part that a method gives, would cut its gradient, and is refused. Words that Python has put
together, "x = " + str(x), are plain.
"""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable
from typing import Any

from fungrad.errors import AbstractValueError, GradientCutError
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import EVAL, Tracer, current, may_be_plain

_SHOWN_BY = frozenset(
    ["IPython", "_pytest", "bdb", "debugpy", "fungrad", "logging", "pdb", "pprint", "pydevd",
     "reprlib", "rich", "textwrap", "traceback", "unittest", "warnings"]
)  # fmt: skip
"""Packages that measure and cut texts to show them."""
_QUESTIONS = (
    "__contains__", "__eq__", "__ge__", "__getitem__", "__gt__", "__hash__", "__iter__", "__le__",
    "__len__", "__lt__", "__ne__", "capitalize", "casefold", "count", "encode", "endswith", "find",
    "index",
    "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric",
    "isprintable", "isspace", "istitle", "isupper", "lower", "lstrip", "partition", "removeprefix",
    "removesuffix", "replace", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "split",
    "splitlines", "startswith", "strip", "swapcase", "title", "translate", "upper",
)  # fmt: skip
_NUMBERS = ("__complex__", "__float__", "__int__")
_SEVERAL: dict[str, Callable[[Any], Any]] = {
    "__iter__": iter,
    "rsplit": list,
    "split": list,
    "splitlines": list,
}
"""Methods whose answer is several texts, and what they return; others return tuples."""


class TracedText(str):
    """The words for a traced value.

    Attributes:
      tracer: the value.
      words_of: the function that makes the text of its number: str or repr.
    """

    tracer: Tracer
    words_of: Callable[[Any], str]

    def __reduce__(self) -> Any:
        return str, (str.__str__(self),)


def _runs(owner: Any) -> bool:
    trace: Any = current()
    while trace is not owner and trace is not EVAL:
        trace = trace.parent
    return trace is owner


def text_of(tracer: Tracer, words: str, words_of: Callable[[Any], str]) -> str:
    """The text of a traced value; that of its number where it has outlived its transform."""
    if may_be_plain(tracer) and type(tracer.inner) is not Tracer:
        return words_of(tracer.inner)
    found = TracedText(words)
    found.tracer, found.words_of = tracer, words_of
    return found


def _question(name: str) -> Any:
    plain = getattr(str, name)
    asked = f"{name[2:-2]}() of the text" if name.startswith("__") else f"text.{name}()"

    def method(self: TracedText, *args: Any, **kwargs: Any) -> Any:
        module = str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0]
        owner = self.tracer.owner
        if module in _SHOWN_BY or not _runs(owner):
            return plain(self, *args, **kwargs)
        weak = self.tracer.type.weak

        def read(value: Any) -> Any:
            words = self.words_of(value.item() if weak and hasattr(value, "item") else value)
            found = plain(words, *args, **kwargs)
            return tuple(found) if name in _SEVERAL else found

        def part(text: Any, get: Callable[[Any], str]) -> Any:
            """A part of the text, which may be the number."""
            if type(text) is not str or len(text) < 2:
                return text
            return text_of(self.tracer, text, lambda value: get(read(value)))

        found = owner.concrete(self.tracer, AbstractValueError, f"{asked} of a value", read)
        if type(found) is not tuple:
            return part(found, lambda whole: whole)
        parts = [part(text, operator.itemgetter(i)) for i, text in enumerate(found)]
        return _SEVERAL.get(name, tuple)(parts)

    method.__name__ = method.__qualname__ = name
    return method


def _number(name: str) -> Any:
    asked = f"{name[2:-2]}() of the text"

    def method(self: TracedText) -> Any:
        owner = self.tracer.owner
        if owner.is_cut(self.tracer):
            read = getattr(builtins, name[2:-2])
            return owner.concrete(
                self.tracer, AbstractValueError, asked, lambda value: read(self.words_of(value))
            )
        raise GradientCutError(
            f"{asked} of a traced value of type {self.tracer.type}"
            f"{user_line()} would cut its gradient silently. Take the value itself, x; where no "
            "gradient is wanted, fg.stop_gradient(x)."
        )

    method.__name__ = method.__qualname__ = name
    return method


for _name in _QUESTIONS:
    setattr(TracedText, _name, _question(_name))
for _name in _NUMBERS:
    setattr(TracedText, _name, _number(_name))
