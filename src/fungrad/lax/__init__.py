"""Floor 8: JAX's lax, as far as NumPy lacks it: structured control flow (`fungrad.lax`)."""

from fungrad.lax.control import while_loop as while_loop
