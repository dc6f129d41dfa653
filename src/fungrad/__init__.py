"""fungrad: grad, vjp, jvp, vmap, jit and make_jaxpr for plain NumPy functions.

The public names, and nothing else. Those below TYPE_CHECKING are imported when they are first used.
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fungrad import errors as errors
from fungrad import numpy as numpy
from fungrad import trees as trees
from fungrad.config import config as config
from fungrad.ir.check import check_graph as check_graph
from fungrad.ir.graph import Graph as Graph
from fungrad.ir.graph import above as _above
from fungrad.ir.types import Type as Type
from fungrad.jit import clear_caches as clear_caches
from fungrad.jit import jit as jit
from fungrad.primitives.stopping import no_gradient as no_gradient
from fungrad.primitives.stopping import stop_gradient as stop_gradient
from fungrad.tracing.interception import intercept as intercept
from fungrad.tracing.scope import named_scope as named_scope
from fungrad.transforms.chunking import batched as batched
from fungrad.transforms.gradients import grad as grad
from fungrad.transforms.gradients import jvp as jvp
from fungrad.transforms.gradients import value_and_grad as value_and_grad
from fungrad.transforms.gradients import vjp as vjp
from fungrad.transforms.mapping import eval_shape as eval_shape
from fungrad.transforms.mapping import evaluate as evaluate
from fungrad.transforms.mapping import make_jaxpr as make_jaxpr
from fungrad.transforms.mapping import vmap as vmap

if TYPE_CHECKING:
    from fungrad import extend as extend
    from fungrad import lax as lax
    from fungrad import nn as nn
    from fungrad import random as random
    from fungrad import scipy as scipy
    from fungrad import sparse as sparse
    from fungrad import testing as testing
    from fungrad import tree_parts as tree_parts
    from fungrad import tree_util as tree_util
    from fungrad.engines import from_jax as from_jax
    from fungrad.engines import to_jax as to_jax
    from fungrad.inspect.ablate import ablate_stops as ablate_stops
    from fungrad.inspect.draw import draw as draw
    from fungrad.inspect.numpy_source import to_source as to_source
    from fungrad.inspect.profile import profile as profile
    from fungrad.inspect.why import why as why
    from fungrad.saving import export as export
    from fungrad.saving import load as load
    from fungrad.saving import save as save
    from fungrad.structural import debug as debug
    from fungrad.structural.checkpoint import checkpoint as checkpoint
    from fungrad.structural.checkpoint import remat as remat
    from fungrad.structural.custom import custom_jvp as custom_jvp
    from fungrad.structural.custom import custom_vjp as custom_vjp
    from fungrad.structural.external import external as external
    from fungrad.structural.external import pure_callback as pure_callback
    from fungrad.structural.implicit import custom_linear_solve as custom_linear_solve
    from fungrad.structural.implicit import custom_root as custom_root
    from fungrad.structural.implicit import fixed_point as fixed_point
    from fungrad.structural.jets import jet as jet
    from fungrad.structural.jets import nth_derivative as nth_derivative
    from fungrad.structural.linear import linear_transpose as linear_transpose
    from fungrad.structural.linear import linearize as linearize
    from fungrad.structural.policies import checkpoint_name as checkpoint_name
    from fungrad.structural.policies import save_dots as save_dots
    from fungrad.structural.policies import save_everything as save_everything
    from fungrad.structural.policies import save_names as save_names
    from fungrad.structural.policies import save_nothing as save_nothing
    from fungrad.transforms.derived import elementwise_grad as elementwise_grad
    from fungrad.transforms.derived import gauss_newton_product as gauss_newton_product
    from fungrad.transforms.derived import hvp as hvp
    from fungrad.transforms.jacobians import hessian as hessian
    from fungrad.transforms.jacobians import jacfwd as jacfwd
    from fungrad.transforms.jacobians import jacobian as jacobian
    from fungrad.transforms.jacobians import jacrev as jacrev
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
    "ablate_stops": "fungrad.inspect.ablate",
    "checkpoint": "fungrad.structural.checkpoint",
    "checkpoint_name": "fungrad.structural.policies",
    "combine": "fungrad.tree_parts",
    "custom_jvp": "fungrad.structural.custom",
    "custom_linear_solve": "fungrad.structural.implicit",
    "custom_root": "fungrad.structural.implicit",
    "custom_vjp": "fungrad.structural.custom",
    "debug": "fungrad.structural.debug",
    "draw": "fungrad.inspect.draw",
    "elementwise_grad": "fungrad.transforms.derived",
    "export": "fungrad.saving",
    "extend": "fungrad.extend",
    "external": "fungrad.structural.external",
    "fixed_point": "fungrad.structural.implicit",
    "from_jax": "fungrad.engines",
    "gauss_newton_product": "fungrad.transforms.derived",
    "hessian": "fungrad.transforms.jacobians",
    "hvp": "fungrad.transforms.derived",
    "jacfwd": "fungrad.transforms.jacobians",
    "jacobian": "fungrad.transforms.jacobians",
    "jacrev": "fungrad.transforms.jacobians",
    "jet": "fungrad.structural.jets",
    "lax": "fungrad.lax",
    "linear_transpose": "fungrad.structural.linear",
    "linearize": "fungrad.structural.linear",
    "load": "fungrad.saving",
    "nn": "fungrad.nn",
    "nth_derivative": "fungrad.structural.jets",
    "partition": "fungrad.tree_parts",
    "profile": "fungrad.inspect.profile",
    "pure_callback": "fungrad.structural.external",
    "random": "fungrad.random",
    "ravel_pytree": "fungrad.tree_parts",
    "register_dataclass": "fungrad.tree_util",
    "register_pytree_node": "fungrad.tree_util",
    "register_pytree_node_class": "fungrad.tree_util",
    "remat": "fungrad.structural.checkpoint",
    "save": "fungrad.saving",
    "save_dots": "fungrad.structural.policies",
    "save_everything": "fungrad.structural.policies",
    "save_names": "fungrad.structural.policies",
    "save_nothing": "fungrad.structural.policies",
    "scipy": "fungrad.scipy",
    "sparse": "fungrad.sparse",
    "testing": "fungrad.testing",
    "to_jax": "fungrad.engines",
    "to_source": "fungrad.inspect.numpy_source",
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
    "why": "fungrad.inspect.why",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_LATER[name])
    value = vars(module).get(name, module)
    globals()[name] = value
    return value


def _picture(graph: Graph) -> Any:
    return importlib.import_module("fungrad.inspect.draw").Picture(graph)


def _save(graph: Graph, path: Any) -> None:
    module = "saving" if str(path).lower().endswith(".fungrad") else "inspect.draw"
    importlib.import_module(f"fungrad.{module}").save(graph, path)


def _cost(graph: Graph) -> Any:
    return importlib.import_module("fungrad.inspect.cost").cost(graph)


_above.picture = _picture
_above.save = _save
_above.cost = _cost


_HIDDEN = ("Any", "TYPE_CHECKING", "ModuleType")


def __dir__() -> list[str]:
    """The public names: of modules those alone that are imported by name."""
    names = {"errors", "numpy", "trees", "__doc__", "__name__", "__path__", "__version__", *_LATER}
    for name, value in globals().items():
        if not name.startswith("_") and name not in _HIDDEN and not isinstance(value, ModuleType):
            names.add(name)
    return sorted(names)


__version__ = "0.1.0"
