"""Where JAX's results and fungrad's differ, each with the reason; see against_jax.py.

Every name of `KNOWN` is compared with finite differences in tests/, by the same tables.
"""

from __future__ import annotations

_MASKED = (
    "a NaN that is left out: its place has the derivative 0 times NaN in JAX; here a masked "
    "cotangent stays exactly 0"
)
_UNIQUE = (
    "JAX's derivative of unique is silently zero; here that of the elements that are taken, ties "
    "shared"
)
KNOWN: dict[str, str] = {
    f"numpy.nan{name}": _MASKED for name in "sum prod max min mean median var std".split()
}
KNOWN |= {
    f"numpy.{name}": _UNIQUE
    for name in (
        "intersect1d setdiff1d setxor1d union1d unique unique_all unique_counts unique_inverse "
        "unique_values"
    ).split()
}
KNOWN |= {
    "nn.dot_product_attention": "JAX computes the softmax of attention in float32",
    "scipy.special.spence": "JAX's derivative is NaN above 1, up to 2",
}

LIMITS: dict[str, str] = {
    "'nextafter' not implemented": "JAX has no derivative of nextafter",
    "igamma_grad_a": "JAX has no second derivative of incomplete gamma functions by their shape",
    "Betainc gradient with respect to a and b": "JAX has no derivatives of betainc by its shapes",
    "'zeta' not implemented": "JAX has no derivative of zeta",
    "'schur' not implemented": "JAX has no derivative of the Schur form that it uses",
    "does not work for lax.while_loop": "JAX has no reverse mode of the loop that it uses",
    "float0": "JAX's derivative is an error of its own: it multiplies tangents of integers",
    "No constant handler for type": "JAX's second derivative is an error: a tracer has leaked",
    "Derivatives of non-symmetric eigenvectors": "JAX differentiates eigenvalues alone, once",
}
"""By a part of the error that JAX raises; then the first order alone is compared, or nothing."""
