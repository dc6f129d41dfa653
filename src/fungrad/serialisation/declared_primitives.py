"""Every primitive that fungrad declares, also in modules not imported yet."""

from __future__ import annotations

import pkgutil
from types import ModuleType

import fungrad.control_flow
import fungrad.custom_rules
import fungrad.debugging
import fungrad.host
import fungrad.implicit
import fungrad.linear_maps
import fungrad.primitives
import fungrad.rematerialisation
import fungrad.retracing
import fungrad.taylor
from fungrad.primitives.primitive import Primitive, primitives
from fungrad.support.lazy import find_spec, imported
from fungrad.support.snapshots import snapshot

PACKAGES: tuple[ModuleType, ...] = (
    fungrad.primitives,
    fungrad.retracing,
    fungrad.control_flow,
    fungrad.taylor,
    fungrad.linear_maps,
    fungrad.custom_rules,
    fungrad.rematerialisation,
    fungrad.host,
    fungrad.implicit,
    fungrad.debugging,
)
"""The packages that declare primitives, besides fungrad.scipy."""


def all_primitives() -> dict[tuple[str, str], Primitive]:
    """Every declared primitive by (module, name), also of other packages."""
    for package in PACKAGES:
        paths = getattr(package, "__path__", ())  # a single module is imported above
        for module in pkgutil.walk_packages(paths, f"{package.__name__}."):
            imported(module.name)
    if find_spec("scipy") is not None:
        for name in ("linalg", "special", "signal.filters"):
            imported(f"fungrad.scipy.{name}")
    return snapshot(primitives)  # another thread may import a module that declares some
