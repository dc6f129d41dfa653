"""Autograd's public names, on fungrad (`fungrad.compat.autograd`).

`install()` makes it importable as `autograd`, so that packages written for that run on fungrad.
"""

from __future__ import annotations

from typing import Any

from fungrad.compat.autograd.builtins import dict as dict
from fungrad.compat.autograd.builtins import isinstance as isinstance
from fungrad.compat.autograd.builtins import list as list
from fungrad.compat.autograd.builtins import tuple as tuple
from fungrad.compat.autograd.builtins import type as type
from fungrad.compat.autograd.differential_operators import checkpoint as checkpoint
from fungrad.compat.autograd.differential_operators import deriv as deriv
from fungrad.compat.autograd.differential_operators import egrad as egrad
from fungrad.compat.autograd.differential_operators import elementwise_grad as elementwise_grad
from fungrad.compat.autograd.differential_operators import grad as grad
from fungrad.compat.autograd.differential_operators import grad_and_aux as grad_and_aux
from fungrad.compat.autograd.differential_operators import grad_named as grad_named
from fungrad.compat.autograd.differential_operators import hessian as hessian
from fungrad.compat.autograd.differential_operators import (
    hessian_tensor_product as hessian_tensor_product,
)
from fungrad.compat.autograd.differential_operators import (
    hessian_vector_product as hessian_vector_product,
)
from fungrad.compat.autograd.differential_operators import holomorphic_grad as holomorphic_grad
from fungrad.compat.autograd.differential_operators import hvp as hvp
from fungrad.compat.autograd.differential_operators import jacobian as jacobian
from fungrad.compat.autograd.differential_operators import make_ggnvp as make_ggnvp
from fungrad.compat.autograd.differential_operators import make_hvp as make_hvp
from fungrad.compat.autograd.differential_operators import make_jvp as make_jvp
from fungrad.compat.autograd.differential_operators import (
    make_jvp_reversemode as make_jvp_reversemode,
)
from fungrad.compat.autograd.differential_operators import make_vjp as make_vjp
from fungrad.compat.autograd.differential_operators import multigrad_dict as multigrad_dict
from fungrad.compat.autograd.differential_operators import (
    tensor_jacobian_product as tensor_jacobian_product,
)
from fungrad.compat.autograd.differential_operators import value_and_grad as value_and_grad
from fungrad.compat.autograd.differential_operators import (
    vector_jacobian_product as vector_jacobian_product,
)
from fungrad.compat.autograd.extend import primitive as primitive
from fungrad.compat.autograd.installing import install as install
from fungrad.compat.autograd.installing import uninstall as uninstall
from fungrad.compat.autograd.namespaces import add_modules as _add_modules
from fungrad.support.lazy import imported as _imported

_SUBMODULES = (
    "builtins", "core", "differential_operators", "extend", "misc", "numpy", "scipy", "test_util",
    "tracer", "wrap_util",
)  # fmt: skip

_add_modules(__name__, {"util": "fungrad.compat.autograd.wrap_util"})


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return _imported(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
