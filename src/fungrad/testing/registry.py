"""`missing_rules`, which looks through the declared primitives."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from fungrad.primitives.primitive import Primitive
from fungrad.serialisation.declared_primitives import all_primitives


def missing_rules(package: str = "") -> list[tuple[str, str]]:
    """The rules that declared primitives lack: pairs (primitive, "batch" or "derivative").

    `vmap` loops over a primitive without a batch rule; one without a derivative, if not declared
    cut, raises MissingRuleError when it is differentiated.

    Args:
      package: the beginning of the modules' names to include.

    >>> missing_rules("fungrad.primitives.elementwise.ufuncs")
    []
    """
    return [
        (primitive.name, rule)
        for (module, _), primitive in sorted(all_primitives().items())
        if module.startswith(package)
        for rule in _missing(primitive)
    ]


def _missing(primitive: Primitive) -> Iterator[str]:
    if primitive.batch is None and _takes_arrays(primitive):
        yield "batch"
    rules = (primitive.jvp, primitive.vjp, primitive.partials)
    if primitive.cuts is not True and all(rule is None for rule in rules):
        yield "derivative"


def _takes_arrays(primitive: Primitive) -> bool:
    """Whether a primitive has arguments to batch (`full` has parameters only)."""
    kinds = [p.kind for p in inspect.signature(primitive.type).parameters.values()]
    return any(kind is not inspect.Parameter.KEYWORD_ONLY for kind in kinds)
