"""fg.to_jax and fg.from_jax: every sample, every trap, derivatives, devices, export. Needs JAX."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

import checks  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from samples import SAMPLES  # noqa: E402

import fungrad as fg  # noqa: E402
from fungrad.engines.jax import determinants, graphs, loops  # noqa: E402, F401
from fungrad.engines.jax.elementwise import Options  # noqa: E402
from fungrad.errors import ArgumentError, UnsupportedFunctionError  # noqa: E402
from fungrad.ir.types import PYTHON_SCALARS  # noqa: E402
from fungrad.primitives.movement.static_index import ARRAY, Index  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
X = np.array([0.3, -0.4, 1.1])

# --- every primitive at every sample --------------------------------------------------------------

WITHOUT_RULE = frozenset(
    """argpartition beta_slope digitize external gamma_slope
    log_gamma_quantile polynomial_roots random_binomial random_log_gamma random_poisson""".split()
)
"""Primitives of the core that run by callbacks alone."""

VECTORS = frozenset("eig eigh svd qr".split())
"""Their vectors are determined up to a phase: other tests compare the rebuilt matrices."""


def translatable(sample: Any) -> bool:
    arrays = [np.asarray(a) for a in sample.args]
    return all(a.dtype.kind in "biufc" and a.dtype not in ("f2", np.longdouble, np.clongdouble)
               and a.dtype.isnative for a in arrays)  # fmt: skip


def compare(name: str, callbacks: bool) -> int:
    primitive = checks.OURS[name]
    options = Options(callbacks, 64)
    compared = 0
    for sample in SAMPLES[name]:
        if not translatable(sample):
            continue
        try:
            with np.errstate(all="ignore"):
                want = checks.outputs(primitive, primitive(*sample.args, **sample.params))
        except Exception:
            continue
        moving = [i for i, a in enumerate(sample.args) if type(a) not in PYTHON_SCALARS]

        def f(*xs: Any, sample: Any = sample, moving: Any = moving) -> Any:
            args = list(sample.args)
            for i, x in zip(moving, xs, strict=True):
                args[i] = x
            return primitive(*args, **sample.params)

        given = [np.asarray(sample.args[i]) for i in moving]
        graph = fg.make_jaxpr(f)(*given)
        got = graphs.run(graph, given, options)
        for one, other, type_ in zip(got, want, graph.output_types, strict=True):
            if type_.dtype.kind == "O":
                continue
            assert one.shape == np.shape(other) and one.dtype == np.asarray(other).dtype, name
            assert_close(np.asarray(one), np.asarray(other), given, name)
        compared += 1
    return compared


def assert_close(got: np.ndarray, want: np.ndarray, given: Any, what: str) -> None:
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want, what)
        return
    single = any(x.dtype in ("f4", "c8") for x in (*given, want))
    tolerance = 3e-5 if single else 1e-9
    scale = np.max(np.abs(want[np.isfinite(want)]), initial=1.0)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale, err_msg=what)


ROUNDED = frozenset(["exact_sum"])
"""Rounded once by NumPy's backend, which XLA cannot."""

CORE = sorted(
    name
    for name, primitive in checks.OURS.items()
    if not primitive.module.startswith("fungrad.scipy") and name not in VECTORS | ROUNDED
)


@pytest.mark.parametrize("name", [n for n in CORE if n not in WITHOUT_RULE])
def test_primitives_agree_with_numpy(name: str) -> None:
    compare(name, callbacks=False)


@pytest.mark.parametrize("name", sorted(WITHOUT_RULE - {"external"}))
def test_others_say_so_and_run_by_callbacks(name: str) -> None:
    if compare(name, callbacks=True):
        with pytest.raises(UnsupportedFunctionError, match=f"no rule for `{name}`.*callbacks=True"):
            compare(name, callbacks=False)


SPECIAL = sorted(
    name
    for name, primitive in checks.OURS.items()
    if primitive.module.startswith("fungrad.scipy") and name not in VECTORS
)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECIAL)
def test_primitives_of_scipy_run_by_entries_or_callbacks(name: str) -> None:
    assert compare(name, callbacks=True)


def test_a_primitive_of_the_users_has_no_rule_by_its_name() -> None:
    """Not even where it has the name, and the parameter, of one that has a rule."""
    doubled = fg.extend.general(
        "matrix_function", eval=lambda x, *, name: 2.0 * x, type=lambda x, *, name: x
    )

    def f(x: Any) -> Any:
        return doubled(x, name="expm")

    x = np.eye(2)
    with pytest.raises(UnsupportedFunctionError, match="no rule for `matrix_function`"):
        fg.to_jax(f)(x)
    assert np.array_equal(fg.to_jax(f, callbacks=True)(x), 2.0 * x)


def gradient_programs(name: str) -> list[tuple[Callable[[Any], Any], np.ndarray, Any]]:
    """For samples of a primitive: a function of one real argument to a number, the argument, and
    all arrays that the primitive reads and gives."""
    primitive = checks.OURS[name]
    found = []
    for sample in SAMPLES[name]:
        if not translatable(sample) or not checks.differentiable(primitive, sample):
            continue
        place = checks.active(sample)[0]

        def f(x: Any, sample: Any = sample, place: int = place) -> Any:
            args = list(sample.args)
            args[place] = x
            parts = checks.outputs(primitive, primitive(*args, **sample.params))
            moving = [p for p in parts if checks.inexact(p)]
            return sum(np.sum(np.sin(np.real(p)) + np.imag(p)) for p in moving)

        x = np.asarray(sample.args[place])
        if x.dtype.kind == "f":
            results = checks.outputs(primitive, primitive(*sample.args, **sample.params))
            found.append((f, x, [np.asarray(a) for a in (*sample.args, *results)]))
    return found[:2]


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in CORE if not n.startswith("external")])
def test_gradient_programs_do_not_differ(name: str) -> None:
    for f, x, arrays in gradient_programs(name):
        gradient = fg.grad(f)
        try:
            with np.errstate(all="ignore"):
                want = gradient(x)
        except fg.errors.FungradError:  # no rule, or no derivative there
            continue
        got = fg.to_jax(gradient, callbacks=True, max_steps=64)(x)
        assert got.shape == want.shape and got.dtype == want.dtype
        assert_close(np.asarray(got), want, arrays, name)


ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks is no part of the package

from benchmarks import cases, libraries, on_jax  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize("case", [*cases.ALL, *on_jax.OWN], ids=lambda case: case.name)
def test_programs_of_the_benchmark_equal_what_is_written_by_hand(case: Any) -> None:
    arguments = case.tiny()
    found = libraries.prepared(libraries.ON_JAX, case)(*arguments)
    expected = case.by_hand(*arguments)
    assert fg.tree_structure(found) == fg.tree_structure(expected)
    for got, right in zip(fg.tree_leaves(found), fg.tree_leaves(expected), strict=True):
        got, right = np.asarray(got), np.asarray(right)
        assert got.shape == right.shape and got.dtype == right.dtype == np.float64
        np.testing.assert_allclose(got, right, rtol=0, atol=1e-10 * np.max(np.abs(right)))


# --- derivatives that JAX would take differently --------------------------------------------------


@fg.custom_vjp
def clipped(x: Any) -> Any:
    return x * 1.0


clipped.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (np.clip(ct, -0.1, 0.1),))


@fg.custom_jvp
def tripled(x: Any) -> Any:
    return x * 2.0


tripled.defjvp(lambda primals, tangents: (tripled(*primals), tangents[0] * 3.0))


def scanned(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        return np.sin(c * v) + fg.stop_gradient(c), np.abs(c)

    return np.sum(fg.lax.scan(step, x, np.ones(5))[1])


def looped(x: Any) -> Any:
    def step(c: Any) -> Any:
        return c[0] + 1.0 + 0.1 * np.sin(c[1][0]), np.sin(c[1]) + 0.1 * c[0]

    return np.sum(fg.lax.while_loop(lambda c: c[0] < 4.0, step, (x[1], x))[1])


def branched(x: Any) -> Any:
    return fg.lax.cond(
        x[0] > 0, lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)), lambda x: np.sum(x**3), x
    )


PROGRAMS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "plain": (lambda x: np.sum(np.sin(x) ** 2), X),
    "custom_vjp": (lambda x: np.sum(clipped(x) * 3.0), X),
    "custom_jvp": (lambda x: np.sum(np.sin(tripled(x))), X),
    "stop_gradient": (lambda x: np.sum(fg.stop_gradient(x) * x), X),
    "where of sqrt at 0": (lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)), np.zeros(2)),
    "abs at 0": (lambda x: np.sum(np.abs(x)), np.zeros(2)),
    "power 0 at 0": (lambda x: np.sum(x**0.0), np.zeros(2)),
    "ties": (lambda x: np.max(x), np.ones(3)),
    "scan": (scanned, X),
    "while": (looped, X),
    "branch": (branched, X),
    "checkpoint": (fg.checkpoint(lambda x: np.sum(np.exp(np.sin(x)))), X),
    "jit": (fg.jit(lambda x: np.sum(np.tanh(x) * x)), X),
    "indices": (lambda x: np.sum(x[np.array([2, 0, 2])] ** 2) + np.sum(np.cumsum(x[::-1]) * x), X),
    "linear algebra": (
        lambda x: np.linalg.slogdet(np.outer(x, x) + np.eye(3))[1]
        + np.sum(np.linalg.solve(np.diag(x + 3.0), x)), X,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_are_fungrads(name: str) -> None:
    f, x = PROGRAMS[name]
    g = fg.to_jax(f, max_steps=32)
    np.testing.assert_allclose(jax.jit(g)(x), f(x), rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.grad(g))(x), fg.grad(f)(x), rtol=1e-10, atol=1e-13)
    by_us = fg.to_jax(fg.value_and_grad(f), max_steps=32)
    value, gradient = jax.jit(by_us)(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    np.testing.assert_allclose(gradient, fg.grad(f)(x), rtol=1e-10, atol=1e-13)
    if name not in ("while", "where of sqrt at 0", "power 0 at 0", "branch"):
        second = jax.jacrev(jax.grad(g))(x)
        np.testing.assert_allclose(second, fg.jacobian(fg.grad(f))(x), rtol=1e-9, atol=1e-12)


def test_third_derivatives_vmap_and_trees() -> None:
    third = jax.grad(jax.grad(jax.grad(fg.to_jax(np.tanh))))(0.5)
    np.testing.assert_allclose(third, fg.nth_derivative(np.tanh, 3)(0.5), rtol=1e-12)
    rows = np.arange(6.0).reshape(2, 3)
    mapped = jax.vmap(jax.grad(fg.to_jax(lambda x: np.sum(np.sin(x)))))(rows)
    np.testing.assert_allclose(mapped, np.cos(rows), rtol=1e-12)
    tree = fg.to_jax(lambda p, *, k: {"a": p["w"] * k, "b": (p["v"], 1)})
    found = tree({"w": X, "v": 2.0}, k=3)
    np.testing.assert_allclose(found["a"], X * 3)
    assert float(found["b"][0]) == 2.0 and int(found["b"][1]) == 1


def test_choices_of_derivatives() -> None:
    f: Any = lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0))  # noqa: E731
    assert np.isnan(jax.grad(fg.to_jax(f, derivatives="jax"))(np.zeros(2))).all()
    refusing = fg.to_jax(f, derivatives=None)
    assert float(refusing(np.ones(2))) == 2.0
    with pytest.raises(ArgumentError, match="derivatives=None"):
        jax.grad(refusing)(np.ones(2))
    with pytest.raises(ArgumentError, match="derivatives='both'"):
        fg.to_jax(f, derivatives="both")


def test_a_while_loop_needs_its_most_steps() -> None:
    with pytest.raises(ArgumentError, match="max_steps="):
        jax.grad(fg.to_jax(looped))(X)
    assert np.isnan(jax.grad(fg.to_jax(looped, max_steps=1))(X)).all()


def test_errors_of_values_are_nan() -> None:
    read = fg.to_jax(lambda x, i: x[i])
    assert np.isnan(read(X, np.array(7))) and float(read(X, np.array(1))) == X[1]
    assert np.isnan(fg.to_jax(np.linalg.cholesky)(-np.eye(2))).any()


def test_random_numbers_have_the_same_bits() -> None:
    key = fg.random.key(0)
    uniform: Any = lambda k: fg.random.uniform(k, (100,))  # noqa: E731
    np.testing.assert_array_equal(jax.jit(fg.to_jax(uniform))(key), uniform(key))
    normal: Any = lambda k: fg.random.normal(k, (100,))  # noqa: E731
    np.testing.assert_allclose(jax.jit(fg.to_jax(normal))(key), normal(key), rtol=1e-14)


@pytest.mark.parametrize("derivatives", ["fungrad", "jax"])
@pytest.mark.parametrize("rank", [4, 3, 2])
def test_derivatives_of_determinants(derivatives: str, rank: int) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(4, rank)) @ rng.normal(size=(rank, 4))
    if rank == 4:
        a = np.stack([a, np.eye(4)])  # of equal singular values
    f = fg.to_jax(fg.grad(lambda a: np.sum(np.linalg.det(a))), derivatives=derivatives)
    g = fg.grad(lambda a: np.sum(np.linalg.det(a)))
    np.testing.assert_allclose(f(a), g(a), atol=1e-13)
    np.testing.assert_allclose(jax.jacrev(f)(a), fg.jacobian(g)(a), atol=1e-12)
    if rank == 4:
        a = a if derivatives == "fungrad" else a[0]
        third = fg.jacobian(fg.jacobian(g))(a)
        np.testing.assert_allclose(jax.jacrev(jax.jacrev(f))(a), third, atol=1e-11)


def test_single_precision_by_jax_s_transformations_warns_once() -> None:
    jax.config.update("jax_enable_x64", False)
    try:
        f = fg.to_jax(lambda x: np.sum(np.sin(x)))
        for transform in (jax.jit, jax.grad):
            g = fg.to_jax(lambda x: np.sum(np.sin(x)))
            with pytest.warns(UserWarning, match="jax_enable_x64"):
                transform(g)(np.ones(3))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            f(jnp.ones(3))  # single precision already
            jax.grad(fg.to_jax(np.sin, precision="convert"))(1.0)
            jax.grad(g)(np.ones(2))  # warned of before
        with pytest.raises(ArgumentError, match="jax_enable_x64"):
            fg.to_jax(lambda n: n + 1)(np.array([1, 2**40]))
        assert fg.to_jax(lambda n: n + 1)(np.array([1, 2])).tolist() == [2, 3]
        doubles = np.ones(2)
        with pytest.raises(ArgumentError, match="jax_enable_x64"):  # inside of a loop
            fg.to_jax(lambda x: fg.lax.scan(
                lambda c, _: (c, np.sum(c * doubles).astype(np.float32)), x, None, length=2)[1]
            )(jnp.ones(2))  # fmt: skip
    finally:
        jax.config.update("jax_enable_x64", True)


def test_double_precision_is_required_or_converted() -> None:
    f: Any = lambda x: x * np.arange(3.0)  # noqa: E731
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(ArgumentError, match="jax_enable_x64"):
            fg.to_jax(f)(np.ones(3))
        found = fg.to_jax(f, precision="convert")(np.ones(3))
        assert found.dtype == np.float32
        single = fg.to_jax(lambda x: np.sin(x) * 2.0)(np.ones(3, np.float32))
        assert single.dtype == np.float32
    finally:
        jax.config.update("jax_enable_x64", True)


def test_rules_of_others_and_arguments_that_are_none() -> None:
    plus = fg.extend.elementwise("plus_one", lambda x: x + 1.0, partials=[1.0])
    with pytest.raises(UnsupportedFunctionError, match="no rule for `plus_one`"):
        fg.to_jax(plus)(X)
    np.testing.assert_allclose(fg.to_jax(plus, callbacks=True)(X), X + 1.0)
    fg.extend.jax_rule(plus, lambda x: x + 1.0)
    np.testing.assert_allclose(jax.jit(jax.grad(fg.to_jax(lambda x: np.sum(plus(x)))))(X), 1.0)
    with pytest.raises(ArgumentError, match="Close over it"):
        fg.to_jax(lambda x, how: x)(X, "fast")


def test_prints_become_callbacks(capfd: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        fg.debug.print("x is {}", x)
        return x * 2.0

    jax.block_until_ready(jax.jit(fg.to_jax(f))(1.5))
    jax.effects_barrier()
    assert "x is 1.5" in capfd.readouterr().out


def test_a_training_loop_and_an_export() -> None:
    def loss(w: Any, x: Any, y: Any) -> Any:
        return np.mean((np.tanh(x @ w) - y) ** 2)

    data = np.random.default_rng(0).normal(size=(50, 3))
    y = np.tanh(data @ np.ones(3))
    gradient = fg.to_jax(fg.grad(loss))
    fit = jax.jit(
        lambda w: jax.lax.fori_loop(0, 500, lambda i, w: w - 0.5 * gradient(w, data, y), w)
    )
    np.testing.assert_allclose(fit(jnp.zeros(3)), 1.0, atol=1e-3)
    pytest.importorskip("flatbuffers")
    exported = jax.export.export(jax.jit(gradient), platforms=["cpu", "cuda", "tpu"])(
        *[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (np.zeros(3), data, y)]
    )
    again = jax.export.deserialize(exported.serialize())
    np.testing.assert_allclose(
        again.call(np.zeros(3), data, y), fg.grad(loss)(np.zeros(3), data, y)
    )


def test_the_last_of_several_writes_stays() -> None:
    write_last = fg.engines.jax.arrays._write_last  # on the CPU another form runs
    i, j = np.array([2, 0, 2, 0]), np.array([1, 1, 1, 0])
    x = np.arange(12.0).reshape(3, 4)
    for written, values in [
        ((i,), np.arange(4.0)[:, None] + np.arange(4.0)),
        ((i, j), np.arange(4.0)),
        ((slice(None), j), -np.arange(12.0).reshape(3, 4)),
        ((i, slice(1, 3)), 7.0),
        ((i[:0],), np.zeros((0, 4))),
    ]:
        want = x.copy()
        want[written] = values
        arrays = [jnp.asarray(e) for e in written if isinstance(e, np.ndarray)]
        index = Index(tuple([ARRAY if isinstance(e, np.ndarray) else e for e in written]))
        found = write_last(jnp.asarray(x), jnp.asarray(values), *arrays, index=index)
        np.testing.assert_array_equal(found, want)


DEVICES = """
import os
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import numpy as np, jax, fungrad as fg
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
X, y, w = rng.normal(size=(800, 6)), rng.random(800), rng.normal(size=6)
def loss(w, X, y):
    return np.mean(np.logaddexp(0.0, X @ w) - y * (X @ w))
mesh = Mesh(np.array(jax.devices()), ("data",))
rows, all_of_it = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
args = jax.device_put(w, all_of_it), jax.device_put(X, rows), jax.device_put(y, rows)
f = jax.jit(fg.to_jax(fg.value_and_grad(loss)))
text = f.lower(*args).compile().as_text()
value, gradient = f(*args)
want = fg.value_and_grad(loss)(w, X, y)
assert len(jax.devices()) == 8
assert text.count("all-reduce(") + text.count("all-reduce-start(") == 1, text
assert "all-gather" not in text
np.testing.assert_allclose(value, want[0], rtol=1e-12)
np.testing.assert_allclose(gradient, want[1], rtol=1e-10)
part = fg.to_jax(fg.value_and_grad(loss))
mean = lambda *args: jax.tree.map(lambda v: jax.lax.pmean(v, "data"), part(*args))
mapped = jax.shard_map(mean, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=P())
value, gradient = jax.jit(mapped)(*args)  # each device its own rows, by hand
np.testing.assert_allclose(value, want[0], rtol=1e-12)
np.testing.assert_allclose(gradient, want[1], rtol=1e-10)
"""


def test_rows_on_eight_devices_need_one_sum() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DEVICES)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


PROCESS = """
import os, sys
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import numpy as np, jax, fungrad as fg
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sys.argv[1], num_processes=2, process_id=int(sys.argv[2]))
assert len(jax.devices()) == 4 and len(jax.local_devices()) == 2
rng = np.random.default_rng(0)
X, y, w = rng.normal(size=(800, 6)), rng.random(800), rng.normal(size=6)
def loss(w, X, y):
    return np.mean(np.logaddexp(0.0, X @ w) - y * (X @ w))
mesh = Mesh(np.array(jax.devices()), ("data",))
def put(x, spec):  # each process has the rows of its own devices alone
    sharding = NamedSharding(mesh, spec)
    return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])
f = jax.jit(fg.to_jax(fg.value_and_grad(loss)), out_shardings=NamedSharding(mesh, P()))
value, gradient = f(put(w, P()), put(X, P("data")), put(y, P("data")))
want = fg.value_and_grad(loss)(w, X, y)
np.testing.assert_allclose(np.asarray(value), want[0], rtol=1e-12)
np.testing.assert_allclose(np.asarray(gradient), want[1], rtol=1e-10)
print("agrees", flush=True)
"""


@pytest.mark.slow
def test_two_processes_of_two_devices_each() -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, address, str(number)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(2)
    ]  # fmt: skip
    try:
        for process in started:
            out, err = process.communicate(timeout=300)
            assert process.returncode == 0 and "agrees" in out, err
    finally:
        for process in started:
            process.kill()


# --- from_jax -------------------------------------------------------------------------------------


def test_functions_of_jax_under_transforms() -> None:
    given = fg.from_jax(lambda x, p: {"a": jnp.sum(jnp.sin(x) * p["k"]), "n": 3})
    f: Any = lambda x: given(x, {"k": 2.0})["a"]  # noqa: E731
    np.testing.assert_allclose(f(X), 2 * np.sum(np.sin(X)))
    np.testing.assert_allclose(fg.grad(f)(X), 2 * np.cos(X))
    np.testing.assert_allclose(fg.jit(fg.grad(f))(X), 2 * np.cos(X))
    np.testing.assert_allclose(fg.hessian(f)(X), np.diag(-2 * np.sin(X)), atol=1e-15)
    np.testing.assert_allclose(fg.jvp(f, (X,), (X,))[1], 2 * np.cos(X) @ X)
    np.testing.assert_allclose(fg.vmap(f)(np.stack([X, X])), [f(X)] * 2)
    np.testing.assert_allclose(fg.vmap(fg.grad(f))(np.stack([X, X])), [2 * np.cos(X)] * 2)


def test_integers_and_several_results() -> None:
    given = fg.from_jax(lambda x, i: (x[i], jnp.sum(x) * i))
    f: Any = lambda x: given(x, np.array(1))[0] ** 2  # noqa: E731
    np.testing.assert_allclose(fg.grad(f)(X), [0.0, 2 * X[1], 0.0])


def test_there_and_back() -> None:
    f = fg.from_jax(fg.to_jax(lambda x: np.sum(np.sin(x) ** 2)))
    np.testing.assert_allclose(fg.grad(f)(X), np.sin(2 * X))
