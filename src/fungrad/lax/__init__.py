"""Floor 8: JAX's lax, as far as NumPy lacks it: structured control flow (`fungrad.lax`)."""

from fungrad.lax.control import cond as cond
from fungrad.lax.control import fori_loop as fori_loop
from fungrad.lax.control import map as map
from fungrad.lax.control import scan as scan
from fungrad.lax.control import switch as switch
from fungrad.lax.control import while_loop as while_loop
from fungrad.lax.cumulative import associative_scan as associative_scan
from fungrad.lax.cumulative import cumlogsumexp as cumlogsumexp
from fungrad.lax.cumulative import cummax as cummax
from fungrad.lax.cumulative import cummin as cummin
from fungrad.lax.cumulative import cumprod as cumprod
from fungrad.lax.cumulative import cumsum as cumsum
from fungrad.lax.cumulative import select as select
from fungrad.primitives.stopping import stop_gradient as stop_gradient
