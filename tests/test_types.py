"""Types of the public verbs, as a type checker shows them for a user's file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fungrad

USER = """\
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fungrad as fg

Array = NDArray[np.float64]

def loss(w: Array, scale: float = 1.0) -> np.float64:
    return np.float64(scale * np.sum(w**2))

def noted(w: Array) -> tuple[float, str]:
    return float(np.sum(w)), "note"

def layer(w: Array) -> Array:
    return np.tanh(w)

@fg.jit
def step(w: Array) -> Array:
    return -w

@fg.jit(static_argnames="n")
def power(w: Array, n: int) -> Array:
    return w**n

def model(x: Array, a: float, b: float) -> Array:
    return a * x + b

w = np.ones(3)
reveal_type(fg.grad(loss))
reveal_type(fg.grad(noted, has_aux=True))
reveal_type(fg.grad(loss)(w, scale=2.0))
reveal_type(fg.value_and_grad(loss))
reveal_type(fg.value_and_grad(noted, has_aux=True))
reveal_type(fg.jit(loss))
reveal_type(fg.jit(loss)(w))
reveal_type(step)
reveal_type(power)
reveal_type(fg.jit(fg.value_and_grad(loss))(w))
reveal_type(fg.vmap(model))
reveal_type(fg.vmap(model)(w, w, b=w))
reveal_type(fg.jacobian(layer))
reveal_type(fg.hessian(loss))
reveal_type(fg.hessian(noted, has_aux=True))
reveal_type(fg.curve_fit(model, w, w))
reveal_type(fg.optimizers.adam(0.1).update(w, ()))
fg.jvp(fg.grad(lambda v: np.sum(v**2)), (w,), (w,))
fg.jit(fg.vmap(lambda v: v**2))(w)
fg.hessian(np.sum)(w)
fg.jit(np.sin)(w)
fg.jacobian(np.tanh)(w)
fg.elementwise_grad(np.sin)(w)
untyped: Any = model
fg.jit(untyped)(w)
fg.grad(untyped)(w)
fg.grad(untyped, has_aux=True)(w)
fg.value_and_grad(untyped, has_aux=True)(w)
fg.jit(fg.grad(lambda v: np.sum(v**2)))(w)
fg.vmap(fg.grad(lambda v: v**2))(w)
fg.jit(fg.vmap(fg.vmap(model)))(w, w, w)
fg.grad(loss)(w, scales=2.0)
fg.jit(loss)("w")
"""

ARRAY = "numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.float64]]"
REVEALED = [
    f"def (w: {ARRAY}, scale: float =) -> Any",
    f"def (w: {ARRAY}) -> tuple[Any, str]",
    "Any",
    f"def (w: {ARRAY}, scale: float =) -> tuple[numpy.float64, Any]",
    f"def (w: {ARRAY}) -> tuple[tuple[float, str], Any]",
    f"Typed[[w: {ARRAY}, scale: float =], numpy.float64]",
    "numpy.float64",
    f"Typed[[w: {ARRAY}], {ARRAY}]",
    f"Typed[[w: {ARRAY}, n: int], {ARRAY}]",
    "tuple[numpy.float64, Any]",
    f"Vmapped[[x: {ARRAY}, a: float, b: float]]",
    "Any",
    f"def (w: {ARRAY}) -> Any",
    f"def (w: {ARRAY}, scale: float =) -> Any",
    f"def (w: {ARRAY}) -> tuple[Any, str]",
    "tuple[Any, Any, fallback=fungrad.fitting.curve_fit_result.CurveFit]",
    "tuple[Any, Any]",
]
ERRORS = ["call-arg", "arg-type"]
"""The two last lines of the file are wrong; all others are right."""

FOLLOWED = ",".join(
    ["fungrad", "fungrad.compiler.jit", "fungrad.optimizers"]
    + [f"fungrad.{name}.*" for name in ("fitting", "ir", "support", "tracing", "transforms")]
)
"""The modules that the types of the verbs are written in."""
SPELLINGS = {  # of other versions of mypy and NumPy
    "builtins.": "",
    "numpy.floating[numpy._typing._64Bit]": "numpy.float64",
    "numpy.floating[_64Bit]": "numpy.float64",
    "numpy._typing._nbit_base._64Bit": "_64Bit",
    "fungrad.compiler.jit.": "",
    "fungrad.transforms.vmap_and_staging.": "",
}


@pytest.mark.slow
def test_a_type_checker_shows_the_signatures_of_the_verbs(tmp_path, monkeypatch):
    """The bodies of fungrad's functions are checked by mypy over src: here they are skipped, and
    folders that the verbs do not stand in are not read.
    """
    api = pytest.importorskip("mypy.api")
    package = Path(fungrad.__file__).parent
    assert (package / "py.typed").exists()
    (tmp_path / "user.py").write_text(USER, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = true\nshow_error_codes = true\n"
        "[mypy-fungrad.*,scipy.*,llvmlite.*,jax.*,mpmath.*]\nfollow_imports = skip\n"
        f"[mypy-{FOLLOWED}]\nfollow_imports = normal\nignore_errors = true\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("MYPYPATH", str(package.parent))
    monkeypatch.chdir(tmp_path)
    out, err, _ = api.run(["--config-file", "mypy.ini", "--no-incremental", "user.py"])
    assert not err
    for spelling, usual in SPELLINGS.items():
        out = out.replace(spelling, usual)
    assert re.findall(r'^user.py:.* Revealed type is "(.*)"', out, re.MULTILINE) == REVEALED, out
    assert re.findall(r"^user.py:.* error: .*\[(.*)\]$", out, re.MULTILINE) == ERRORS, out
