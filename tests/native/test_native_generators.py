"""Generators say what they accept before they write, and one function chooses among them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fungrad as fg
from fungrad.compiler.native.array_loops import loop_kernel, sequence_kernel
from fungrad.compiler.native.fused import cheap_kernel, fused_kernel
from fungrad.compiler.native.generators import Generator, chosen
from fungrad.compiler.native.kernel import Kernel
from fungrad.compiler.native.llvm_ir import Module
from fungrad.compiler.native.programs import scalar_kernel
from fungrad.compiler.native.single_equations import SINGLE, separate, single, single_kernel
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.refusal import Refusal, Refused, refusal

ROOT = Path(fg.__file__).parent
X = np.linspace(0.1, 1.0, 300)


def graph_of(f: Any, *args: Any) -> Any:
    return optimised(fg.make_jaxpr(f)(*args))


REFUSED = {
    "a sort": (fused_kernel, lambda x, m: np.sort(x) * 2.0, "form"),
    "one product with a vector": (fused_kernel, lambda x, m: m @ x, "moves"),
    "moves": (fused_kernel, lambda x, m: x[::-1], "moves"),
    "int8": (cheap_kernel, lambda x, m: x.astype(np.int8) * np.int8(2), "dtype"),
    "no loop": (loop_kernel, lambda x, m: np.sin(x) * x, "moves"),
    "few elements": (sequence_kernel, lambda x, m: (x[:3] * 2.0, x[:2]), "small"),
    "several equations": (single_kernel, lambda x, m: np.cumsum(x * 2.0), "form"),
    "no such kernel": (single_kernel, lambda x, m: np.sin(x), "form"),
    "a matrix for LAPACK": (single_kernel, lambda x, m: np.linalg.inv(m), "long"),
    "numbers": (scalar_kernel, lambda x, m: x.astype(np.int8), "dtype"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_data_of_the_equations(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generator, f, code = REFUSED[name]
    graph = graph_of(f, X, np.eye(300))
    monkeypatch.setattr(Module, "__init__", None)  # nothing is written
    found = generator.refusal(graph)
    assert found is not None and found.code == code and found.reason
    with pytest.raises(Refused) as ended:
        generator(graph)
    assert ended.value.refusal == found


def test_a_refusal_names_its_equation_and_sizes() -> None:
    graph = graph_of(lambda a, b: a @ b, np.ones((300, 300)), np.ones((300, 300)))
    (equation,) = graph.equations
    found = single_kernel.refusal(graph)
    assert found == Refusal(equation, "long", "a product of 27000000 terms", {"terms": 27000000})


def test_the_first_that_accepts_and_fits_is_chosen() -> None:
    asked: list[str] = []

    def generator(name: str, refused: str = "", fails: str = "") -> Generator:
        def write(graph: Any) -> Kernel:
            asked.append(name)
            if fails:
                raise Refused(fails, "long")
            return Kernel(Module(), (), (), units=len(name))

        return Generator(write, lambda graph: refusal(refused) if refused else None)

    four = [generator("a", refused="no"), generator("bb", fails="too long"), generator("ccc"),
            generator("dddd"), generator("eeeee")]  # fmt: skip
    kernel, refusals = chosen(
        graph_of(np.sin, X), four, lambda k: refusal("unfit") if k.units == 3 else None
    )
    assert kernel is not None and kernel.units == 4
    assert asked == ["bb", "ccc", "dddd"]
    assert [str(one) for one in refusals] == ["no", "too long", "unfit"]
    kernel, refusals = chosen(graph_of(np.sin, X), four[:1])
    assert kernel is None and [str(one) for one in refusals] == ["no"]


def test_kernels_of_one_equation_are_one_table() -> None:
    (cumulative,) = graph_of(np.cumsum, X).equations
    assert single(cumulative) is SINGLE[cumulative.primitive] and separate(cumulative)
    (small,) = graph_of(lambda x: x @ x, np.ones((7, 7))).equations
    assert single(small) is not None and not separate(small)  # NumPy's call is as fast
    (sine,) = graph_of(np.sin, X).equations
    assert single(sine) is None


def test_refusals_are_caught_in_one_place() -> None:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "Refused" in text else ():
            if isinstance(node, ast.ExceptHandler) and node.type is not None:
                if "Refused" in ast.unparse(node.type):
                    found.append(path.relative_to(ROOT).as_posix())
    assert found == ["compiler/refusal.py"]


def _total(x: Any, *, axes: Any) -> Any:
    return np.sum(x, axis=axes)


total = fg.extend.linear(
    "total",
    eval=_total,
    type=lambda x, *, axes: fg.make_jaxpr(lambda x: np.sum(x, axis=axes))(
        np.zeros(x.shape, x.dtype)
    ).output_types[0],
    transpose=lambda ct, x, *, axes: np.broadcast_to(np.expand_dims(ct, axes), x.shape),
    batch=None,
    reduces=np.add,
)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((9_000,), (0,)), ((30, 300), (1,)), ((900, 10), (1,)), ((9_000, 1), (1,))],
)
@pytest.mark.usefixtures("native")
def test_a_reduction_of_another_package_is_native_by_its_fact(shape: Any, axes: Any) -> None:
    x = np.linspace(-1.0, 2.0, 9_000).reshape(shape)
    f = fg.jit(lambda x: total(np.sin(x) * x, axes=axes))
    assert f.lower(x).refused == ()
    np.testing.assert_allclose(f(x), np.sum(np.sin(x) * x, axes), rtol=1e-12, atol=1e-13)
