"""A mutant in the memory of a process that has imported the package: the code of the functions that
its snippet changes is exchanged.

What a module computes when it is imported (tables, classes, decorated names) stays as it was: a
mutant of that needs a process of its own.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

Pair = tuple[CodeType, CodeType]


class NotInFunctions(Exception):
    """The mutant changes what runs when its module is imported."""


def _inner(code: CodeType) -> list[CodeType]:
    return [c for c in code.co_consts if isinstance(c, CodeType)]


def _own(code: CodeType) -> Any:
    """What a code object does, without the functions in it and the lines."""
    rest = [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]
    return code.co_code, rest, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars


def changed(old: CodeType, new: CodeType) -> Iterator[Pair]:
    """The code objects that differ, with what stands in their places; inner ones too."""
    first, second = _inner(old), _inner(new)
    if len(first) != len(second):
        yield old, new
        return
    different = [pair for one, other in zip(first, second, strict=True)
                 for pair in changed(one, other)]  # fmt: skip
    yield from different
    if different or _own(old) != _own(new):
        yield old, new


def _key(code: CodeType) -> tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_qualname


def _all_objects() -> list[Any]:
    """The objects of the process, those that the tests' setup has frozen, too: they stay frozen."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    found = gc.get_objects()
    if frozen:
        gc.freeze()
    return found


def apply(file: str, old: str, new: str) -> int:
    """Exchanges the code of the functions of a file that a mutant changes.

    Args:
      file: the path of the file, as it was imported.
      old, new: the snippet that stands in it once, and what shall stand there.

    Returns:
      How many functions were changed.

    Raises:
      NotInFunctions: if it changes more than functions that exist.
    """
    with open(file, encoding="utf-8") as stream:
        source = stream.read()
    before = compile(source, file, "exec")
    after = compile(source.replace(old, new), file, "exec")
    pairs = list(changed(before, after))
    if not pairs or _own(before) != _own(after):
        raise NotInFunctions(file)
    codes = {_key(one): other for one, other in pairs if one is not before}
    count = 0
    for value in _all_objects():
        if type(value) is FunctionType and value.__code__.co_filename == file:
            found = codes.get(_key(value.__code__))
            if found is not None:
                if len(found.co_freevars) != len(value.__closure__ or ()):
                    raise NotInFunctions(file)
                value.__code__ = found
                count += 1
    if not count:
        raise NotInFunctions(file)
    return count
