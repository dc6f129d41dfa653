"""Floor 8: what extenders need: the families of primitives, and the types that their rules speak
of.

A declared primitive is a function that every transform understands:

>>> import fungrad as fg
>>> cube = elementwise("cube", lambda x: x**3, partials=[lambda y, x: 3 * x**2])
>>> float(fg.grad(fg.grad(cube))(2.0))
12.0
"""

from fungrad.ir.types import Type as Type
from fungrad.primitives.contracting import multilinear as multilinear
from fungrad.primitives.declare import Primitive as Primitive
from fungrad.primitives.declare import general as general
from fungrad.primitives.declare import linear as linear
from fungrad.primitives.elementwise import Masked as Masked
from fungrad.primitives.elementwise import Over as Over
from fungrad.primitives.elementwise import elementwise as elementwise
from fungrad.structural.call import structural as structural
from fungrad.tracing.trace import Trace as Trace
from fungrad.tracing.trace import Tracer as Tracer
from fungrad.tracing.trace import current
from fungrad.tracing.trace import typeof as typeof

current_trace = current
