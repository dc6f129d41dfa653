"""Traced functions on JAX, and JAX's functions under fungrad. Importing it imports JAX."""

from fungrad.errors import MissingExtraError

try:
    import jax as jax
except ImportError as _error:
    raise MissingExtraError(
        'fg.to_jax and fg.from_jax need JAX. Install it with: pip install "fungrad[jax]"'
    ) from _error
