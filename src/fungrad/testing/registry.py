"""Floor 9: `missing_rules`, which looks through the declared primitives. Knows the registry."""

from __future__ import annotations

import importlib.util
import inspect
import pkgutil
from collections.abc import Iterator

import fungrad.primitives
import fungrad.structural
from fungrad.primitives.declare import Primitive, primitives


def all_primitives() -> dict[tuple[str, str], Primitive]:
    """Every declared primitive by (module, name), those of fungrad that were not used yet
    included.
    """
    for package in (fungrad.primitives, fungrad.structural):
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
    if importlib.util.find_spec("scipy") is not None:
        for name in ("linalg", "special", "signal_filters"):
            importlib.import_module(f"fungrad.scipy.{name}")
    return primitives


def missing_rules(package: str = "") -> list[tuple[str, str]]:
    """The rules that declared primitives lack: pairs (primitive, "batch" or "derivative").

    A primitive without a batch rule is looped over by `vmap`; one without a derivative, that was
    not said to be cut, raises MissingRuleError when it is differentiated.

    Args:
      package: only primitives whose module's name begins with this.

    >>> missing_rules("fungrad.primitives.ufuncs")
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
    """Whether it has arguments that could be batched at all (`full` has parameters only)."""
    kinds = [p.kind for p in inspect.signature(primitive.type).parameters.values()]
    return any(kind is not inspect.Parameter.KEYWORD_ONLY for kind in kinds)
