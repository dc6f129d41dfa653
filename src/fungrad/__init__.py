"""fungrad: grad, vjp, jvp, vmap and make_jaxpr for plain NumPy functions."""

from fungrad import errors as errors
from fungrad import extend as extend
from fungrad import lax as lax
from fungrad import numpy as numpy
from fungrad import trees as trees
from fungrad.ir.check import check as check_graph
from fungrad.ir.graph import Graph as Graph
from fungrad.ir.types import Type as Type
from fungrad.jit import jit as jit
from fungrad.primitives.stopping import no_gradient as no_gradient
from fungrad.primitives.stopping import stop_gradient as stop_gradient
from fungrad.tracing.scope import named_scope as named_scope
from fungrad.transforms.gradients import grad as grad
from fungrad.transforms.gradients import jvp as jvp
from fungrad.transforms.gradients import value_and_grad as value_and_grad
from fungrad.transforms.gradients import vjp as vjp
from fungrad.transforms.mapping import eval_shape as eval_shape
from fungrad.transforms.mapping import evaluate as evaluate
from fungrad.transforms.mapping import make_jaxpr as make_jaxpr
from fungrad.transforms.mapping import vmap as vmap

__version__ = "0.1.0"
