"""fungrad: grad, vjp, jvp, vmap, jit and make_jaxpr for plain NumPy functions.

The public names only. Those below TYPE_CHECKING are imported at first use.
"""

# ruff: noqa: E402 - the collector of garbage rests while the modules below are imported

import gc as _gc
from types import ModuleType
from typing import TYPE_CHECKING, Any

_collects = _gc.isenabled()
_gc.disable()  # a tenth of the time of an import, in which nothing becomes garbage

from fungrad import errors as errors
from fungrad.config import config as config
from fungrad.ir.graph import Graph as Graph
from fungrad.ir.graph import above as _above
from fungrad.ir.types import ShapeDtypeStruct as ShapeDtypeStruct
from fungrad.ir.types import Type as Type
from fungrad.support import pytree as trees  # noqa: F401 - a public name
from fungrad.support.lazy import Module as _Module
from fungrad.support.lazy import imported as _imported
from fungrad.tracing.interception import intercept as intercept
from fungrad.tracing.provenance import named_scope as named_scope
from fungrad.tracing.trace import registry as _registry
from fungrad.transforms.grad import grad as grad
from fungrad.transforms.grad import jvp as jvp
from fungrad.transforms.grad import value_and_grad as value_and_grad
from fungrad.transforms.grad import vjp as vjp

if _collects:
    _gc.enable()

if TYPE_CHECKING:
    from fungrad import debugging as debug  # noqa: F401
    from fungrad import extend as extend
    from fungrad import lax as lax
    from fungrad import nn as nn
    from fungrad import numpy as numpy
    from fungrad import optimizers as optimizers
    from fungrad import random as random
    from fungrad import scipy as scipy
    from fungrad import sparse as sparse
    from fungrad import testing as testing
    from fungrad import tree_parts as tree_parts
    from fungrad import tree_util as tree_util
    from fungrad.compiler.jit import clear_caches as clear_caches
    from fungrad.compiler.jit import jit as jit
    from fungrad.custom_rules.closure_convert import closure_convert as closure_convert
    from fungrad.custom_rules.custom_vjp_jvp import custom_jvp as custom_jvp
    from fungrad.custom_rules.custom_vjp_jvp import custom_vjp as custom_vjp
    from fungrad.engines import from_jax as from_jax
    from fungrad.engines import to_jax as to_jax
    from fungrad.engines import to_torch as to_torch
    from fungrad.fitting import curve_fit as curve_fit
    from fungrad.fitting import minimize as minimize
    from fungrad.host.external import external as external
    from fungrad.host.external import pure_callback as pure_callback
    from fungrad.host.opaque_calls import opaque as opaque
    from fungrad.implicit import custom_linear_solve as custom_linear_solve
    from fungrad.implicit import custom_root as custom_root
    from fungrad.implicit import fixed_point as fixed_point
    from fungrad.inspect.digits.digits import digits as digits
    from fungrad.inspect.draw.draw import draw as draw
    from fungrad.inspect.profile import profile as profile
    from fungrad.inspect.why.ablate_stops import ablate_stops as ablate_stops
    from fungrad.inspect.why.why import why as why
    from fungrad.ir.verifier import check_graph as check_graph
    from fungrad.linear_maps.linearize import linear_transpose as linear_transpose
    from fungrad.linear_maps.linearize import linearize as linearize
    from fungrad.primitives.stop_gradient import no_gradient as no_gradient
    from fungrad.primitives.stop_gradient import stop_gradient as stop_gradient
    from fungrad.rematerialisation.checkpoint import checkpoint as checkpoint
    from fungrad.rematerialisation.checkpoint import remat as remat
    from fungrad.rematerialisation.policies import checkpoint_name as checkpoint_name
    from fungrad.rematerialisation.policies import save_dots as save_dots
    from fungrad.rematerialisation.policies import save_everything as save_everything
    from fungrad.rematerialisation.policies import save_names as save_names
    from fungrad.rematerialisation.policies import save_nothing as save_nothing
    from fungrad.serialisation.archive import export as export
    from fungrad.serialisation.archive import load as load
    from fungrad.serialisation.archive import load_tree as load_tree
    from fungrad.serialisation.archive import save as save
    from fungrad.serialisation.archive import save_tree as save_tree
    from fungrad.slowness.explain_speed import explain_speed as explain_speed
    from fungrad.source_export import to_source as to_source
    from fungrad.taylor.jet import jet as jet
    from fungrad.taylor.jet import nth_derivative as nth_derivative
    from fungrad.transforms.jacobian import elementwise_grad as elementwise_grad
    from fungrad.transforms.jacobian import gauss_newton_product as gauss_newton_product
    from fungrad.transforms.jacobian import hessian as hessian
    from fungrad.transforms.jacobian import hvp as hvp
    from fungrad.transforms.jacobian import jacfwd as jacfwd
    from fungrad.transforms.jacobian import jacobian as jacobian
    from fungrad.transforms.jacobian import jacrev as jacrev
    from fungrad.transforms.vmap_and_staging import batched as batched
    from fungrad.transforms.vmap_and_staging import eval_shape as eval_shape
    from fungrad.transforms.vmap_and_staging import evaluate as evaluate
    from fungrad.transforms.vmap_and_staging import make_jaxpr as make_jaxpr
    from fungrad.transforms.vmap_and_staging import vmap as vmap
    from fungrad.tree_parts import combine as combine
    from fungrad.tree_parts import partition as partition
    from fungrad.tree_parts import ravel_pytree as ravel_pytree
    from fungrad.tree_util import Partial as Partial
    from fungrad.tree_util import register_dataclass as register_dataclass
    from fungrad.tree_util import register_pytree_node as register_pytree_node
    from fungrad.tree_util import register_pytree_node_class as register_pytree_node_class
    from fungrad.tree_util import tree_all as tree_all
    from fungrad.tree_util import tree_flatten as tree_flatten
    from fungrad.tree_util import tree_flatten_with_path as tree_flatten_with_path
    from fungrad.tree_util import tree_leaves as tree_leaves
    from fungrad.tree_util import tree_map as tree_map
    from fungrad.tree_util import tree_map_with_path as tree_map_with_path
    from fungrad.tree_util import tree_reduce as tree_reduce
    from fungrad.tree_util import tree_structure as tree_structure
    from fungrad.tree_util import tree_transpose as tree_transpose
    from fungrad.tree_util import tree_unflatten as tree_unflatten

_LATER = {
    "Partial": "fungrad.tree_util",
    "ablate_stops": "fungrad.inspect.why.ablate_stops",
    "batched": "fungrad.transforms.vmap_and_staging",
    "check_graph": "fungrad.ir.verifier",
    "checkpoint": "fungrad.rematerialisation.checkpoint",
    "checkpoint_name": "fungrad.rematerialisation.policies",
    "clear_caches": "fungrad.compiler.jit",
    "closure_convert": "fungrad.custom_rules.closure_convert",
    "combine": "fungrad.tree_parts",
    "curve_fit": "fungrad.fitting",
    "custom_jvp": "fungrad.custom_rules.custom_vjp_jvp",
    "custom_linear_solve": "fungrad.implicit",
    "custom_root": "fungrad.implicit",
    "custom_vjp": "fungrad.custom_rules.custom_vjp_jvp",
    "debug": "fungrad.debugging",
    "digits": "fungrad.inspect.digits.digits",
    "draw": "fungrad.inspect.draw.draw",
    "elementwise_grad": "fungrad.transforms.jacobian",
    "eval_shape": "fungrad.transforms.vmap_and_staging",
    "evaluate": "fungrad.transforms.vmap_and_staging",
    "explain_speed": "fungrad.slowness.explain_speed",
    "export": "fungrad.serialisation.archive",
    "extend": "fungrad.extend",
    "external": "fungrad.host.external",
    "fixed_point": "fungrad.implicit",
    "from_jax": "fungrad.engines",
    "gauss_newton_product": "fungrad.transforms.jacobian",
    "hessian": "fungrad.transforms.jacobian",
    "hvp": "fungrad.transforms.jacobian",
    "jacfwd": "fungrad.transforms.jacobian",
    "jacobian": "fungrad.transforms.jacobian",
    "jacrev": "fungrad.transforms.jacobian",
    "jet": "fungrad.taylor.jet",
    "jit": "fungrad.compiler.jit",
    "lax": "fungrad.lax",
    "linear_transpose": "fungrad.linear_maps.linearize",
    "linearize": "fungrad.linear_maps.linearize",
    "load": "fungrad.serialisation.archive",
    "load_tree": "fungrad.serialisation.archive",
    "make_jaxpr": "fungrad.transforms.vmap_and_staging",
    "minimize": "fungrad.fitting",
    "nn": "fungrad.nn",
    "no_gradient": "fungrad.primitives.stop_gradient",
    "nth_derivative": "fungrad.taylor.jet",
    "numpy": "fungrad.numpy",
    "opaque": "fungrad.host.opaque_calls",
    "optimizers": "fungrad.optimizers",
    "partition": "fungrad.tree_parts",
    "profile": "fungrad.inspect.profile",
    "pure_callback": "fungrad.host.external",
    "random": "fungrad.random",
    "ravel_pytree": "fungrad.tree_parts",
    "register_dataclass": "fungrad.tree_util",
    "register_pytree_node": "fungrad.tree_util",
    "register_pytree_node_class": "fungrad.tree_util",
    "remat": "fungrad.rematerialisation.checkpoint",
    "save": "fungrad.serialisation.archive",
    "save_dots": "fungrad.rematerialisation.policies",
    "save_everything": "fungrad.rematerialisation.policies",
    "save_names": "fungrad.rematerialisation.policies",
    "save_nothing": "fungrad.rematerialisation.policies",
    "save_tree": "fungrad.serialisation.archive",
    "scipy": "fungrad.scipy",
    "sparse": "fungrad.sparse",
    "stop_gradient": "fungrad.primitives.stop_gradient",
    "testing": "fungrad.testing",
    "to_jax": "fungrad.engines",
    "to_source": "fungrad.source_export",
    "to_torch": "fungrad.engines",
    "tree_all": "fungrad.tree_util",
    "tree_flatten": "fungrad.tree_util",
    "tree_flatten_with_path": "fungrad.tree_util",
    "tree_leaves": "fungrad.tree_util",
    "tree_map": "fungrad.tree_util",
    "tree_map_with_path": "fungrad.tree_util",
    "tree_parts": "fungrad.tree_parts",
    "tree_reduce": "fungrad.tree_util",
    "tree_structure": "fungrad.tree_util",
    "tree_transpose": "fungrad.tree_util",
    "tree_unflatten": "fungrad.tree_util",
    "tree_util": "fungrad.tree_util",
    "vmap": "fungrad.transforms.vmap_and_staging",
    "why": "fungrad.inspect.why.why",
}

_above.installer = _Module("fungrad.graph_methods")
_registry.installer = _Module("fungrad.interception")


def __getattr__(name: str) -> Any:
    if name == "__all__":  # of `import *`
        return [public for public in __dir__() if public[0] != "_"]
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _imported(_LATER[name])
    value = vars(module).get(name, module)
    globals()[name] = value
    return value


_HIDDEN = ("Any", "TYPE_CHECKING", "ModuleType")


def __dir__() -> list[str]:
    """The public names, with modules only if imported by name."""
    names = {"errors", "trees", "__doc__", "__name__", "__path__", "__version__", *_LATER}
    for name, value in globals().items():
        if not name.startswith("_") and name not in _HIDDEN and not isinstance(value, ModuleType):
            names.add(name)
    return sorted(names)


__version__ = "0.2.0"
