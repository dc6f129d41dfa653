"""The public testing kit: check_grads judges rightly, the strategies work, nothing needs
Hypothesis.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from checks import LOOPED
from hypothesis import given, settings

import fungrad as fg
from fungrad.errors import ArgumentError, GradientCheckError, MissingExtraError
from fungrad.primitives.elementwise.family import elementwise
from fungrad.primitives.primitive import Primitive, primitives
from fungrad.testing import Program, arrays, check_grads, missing_rules, programs


@pytest.fixture(autouse=True)
def clean():
    """Restores the registry of primitives after a test."""
    known = dict(primitives)
    yield
    primitives.clear()
    primitives.update(known)


# --- check_grads ----------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("modes", ["fwd", "rev", ("fwd", "rev")])
def test_right_derivatives_pass(order, modes):
    x = np.array([0.3, -1.2, 2.0])
    check_grads(lambda x, y: np.sin(x) * y / (1 + x * x), (x, 2.0), order=order, modes=modes)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_every_dtype_has_its_tolerance(dtype):
    x = np.array([0.3, 0.6, 0.9]).astype(dtype)
    check_grads(lambda x: np.sin(x) * x, (x,))


def test_trees_and_fixed_leaves():
    def f(p, n, label):
        assert label == "label" and n == 3
        return {"out": p["w"] ** n * p["b"][0], "count": n, "more": [np.exp(p["w"])]}

    check_grads(f, ({"w": 1.5, "b": [np.ones(2), None]}, 3, "label"))


def test_complex_functions_that_are_not_holomorphic():
    z = np.array([1 + 2j, -0.5 + 0.3j])
    check_grads(np.abs, (z,))
    check_grads(lambda z: np.conj(z) * z * z, (z,))


def wrong(name, partial):
    return elementwise(name, lambda x: x**3, partials=[partial])


@pytest.mark.parametrize("modes", ["fwd", "rev"])
@pytest.mark.parametrize(
    ("partial", "order"),
    [
        (lambda y, x: -3.0 * x**2, 1),
        (lambda y, x: 3.0003 * x**2, 1),
        (lambda y, x: x * 0.0, 1),
        (lambda y, x: x * np.nan, 1),
        (lambda y, x: 3.0 * fg.stop_gradient(x) ** 2, 2),
        (lambda y, x: 3.0 * x * fg.stop_gradient(x), 2),
    ],
)
def test_wrong_derivatives_are_found_with_mode_and_order(partial, order, modes):
    cube = wrong("cube", partial)
    with pytest.raises(GradientCheckError) as info:
        check_grads(cube, (np.array([1.0, 2.0]),), modes=modes)
    message = str(info.value)
    assert f"order {order}" in message
    assert {"fwd": "Forward mode (jvp)", "rev": "Reverse mode (vjp)"}[modes] in message
    assert "by central differences" in message and "an error of" in message
    assert "atol=" in message and "eps=" in message and "with respect to" in message
    if order == 2:
        assert {"fwd": "of the jvp of", "rev": "of the vjp of"}[modes] in message
        check_grads(cube, (np.array([1.0, 2.0]),), modes=modes, order=1)


def test_the_place_of_the_worst_error_is_named():
    f = elementwise(
        "partly", lambda x: x * x, partials=[lambda y, x: np.where(x > 2, 0.0, 2.0 * x)]
    )
    with pytest.raises(GradientCheckError, match=r"output 0\[1, 0\] has the tangent"):
        check_grads(f, (np.array([[1.0, 2.0], [3.0, 1.5]]),), modes="fwd")


def test_one_wrong_mode_is_told_from_the_other():
    one_sided = Primitive(
        "one_sided",
        eval=np.square,
        type=lambda x: x,
        jvp=lambda p, t: (p[0] * p[0], 2.0 * p[0] * t[0]),
        vjp=lambda ct, y, args, wanted: [ct * args[0]],
    )
    check_grads(one_sided, (3.0,), modes="fwd", order=1)
    with pytest.raises(GradientCheckError, match="Reverse mode"):
        check_grads(one_sided, (3.0,), order=1)


def test_the_tolerances_can_be_chosen():
    almost = wrong("almost", lambda y, x: 3.003 * x**2)
    with pytest.raises(GradientCheckError):
        check_grads(almost, (2.0,), order=1)
    check_grads(almost, (2.0,), order=1, rtol=1e-2)
    check_grads(almost, (2.0,), order=1, atol=1.0)
    with pytest.raises(GradientCheckError):
        check_grads(np.sin, (1.0,), order=1, eps=0.5)


def test_a_kink_or_a_pole_within_the_step_is_reported():
    with pytest.raises(GradientCheckError):
        check_grads(lambda x: np.abs(x - 1.0), (1.0 + 4e-6,), order=1)
    with pytest.raises(GradientCheckError), np.errstate(all="ignore"):
        check_grads(np.sqrt, (0.0,), order=1)


@pytest.mark.parametrize(
    ("f", "args", "options"),
    [
        (np.sin, (1,), {}),
        (np.sin, (1.0,), {"modes": ()}),
        (np.sin, (1.0,), {"modes": "both"}),
        (np.sin, (1.0,), {"order": 0}),
        (np.sin, (1.0,), {"order": 1.5}),
        (lambda x: 3, (1.0,), {}),
    ],
)
def test_what_cannot_be_checked_is_refused(f, args, options):
    with pytest.raises(ArgumentError):
        check_grads(f, args, **options)


def test_an_empty_array_and_a_python_scalar():
    check_grads(lambda x, y: np.sin(x) * y, (np.zeros((0, 3)), 1.5))
    check_grads(lambda z: z * z, (1 + 2j,))


# --- missing_rules --------------------------------------------------------------------


def test_missing_rules_are_listed():
    Primitive("bare", eval=np.sin, type=lambda x: x)
    Primitive("cut", eval=np.sin, type=lambda x: x, cuts=True)
    Primitive("no_batch", eval=np.sin, type=lambda x: x, vjp=lambda *a: [a[0]])
    Primitive("no_arguments", eval=lambda *, n: n, type=lambda *, n: n, cuts=True)
    assert missing_rules(__name__) == [
        ("bare", "batch"),
        ("bare", "derivative"),
        ("cut", "batch"),
        ("no_batch", "batch"),
    ]
    assert set(missing_rules(__name__)) <= set(missing_rules())


def test_no_rule_is_missing_in_any_namespace():
    for module in pkgutil.walk_packages(fg.__path__, "fungrad."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(MissingExtraError):  # an engine that is not installed
                importlib.import_module(module.name)
    assert missing_rules("fungrad.") == LOOPED


# --- strategies -----------------------------------------------------------------------


@given(arrays())
def test_arrays_by_default(x):
    assert x.dtype == np.float64 and x.ndim <= 3 and max(x.shape, default=0) <= 3
    assert np.all(np.abs(x) <= 2)


@given(arrays(np.float32, (2, 3), min_value=0.5, max_value=1.0))
def test_arrays_of_a_shape_and_domain(x):
    assert x.dtype == np.float32 and x.shape == (2, 3)
    assert np.all((x >= 0.5) & (x <= 1.0))


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64, np.int64, np.uint8, bool])
def test_arrays_of_other_dtypes(dtype):
    @given(arrays(dtype))
    @settings(max_examples=20)
    def run(x):
        assert x.dtype == dtype

    run()


@pytest.mark.slow
@given(programs(scalar=False))
def test_programs_run_and_print_as_their_source(program):
    assert isinstance(program, Program)
    namespace = {"np": np}
    exec(program.source, namespace)
    np.testing.assert_array_equal(namespace["program"](*program.args), program(*program.args))
    assert np.all(np.isfinite(program(*program.args)))
    assert repr(program).startswith("def program(x0")


@pytest.mark.slow
def test_programs_vary():
    sources = []

    @given(programs())
    @settings(max_examples=400)
    def run(program):
        sources.append(program.source)

    run()
    text = "".join(sources)
    for wanted in ("@", "np.where", "np.cumsum", "np.concatenate", "[0, -1, 0]", "np.stack",
                   "keepdims", "np.prod", "np.logaddexp", "** np.tanh", "x2"):  # fmt: skip
        assert wanted in text
    assert len(set(sources)) > 200
    assert np.mean([source.count("\n") - 2 for source in sources]) > 4


@pytest.mark.slow
def test_without_hypothesis():
    script = (
        "import sys\n"
        "for name in ('hypothesis', 'hypothesis.strategies'): sys.modules[name] = None\n"
        "import numpy as np\n"
        "import fungrad.testing as t\n"
        "from fungrad.errors import MissingExtraError\n"
        "t.check_grads(np.sin, [1.0])\n"
        "assert t.missing_rules('fungrad.') == []\n"
        "for strategy in (t.arrays, t.programs):\n"
        "    try: strategy()\n"
        '    except MissingExtraError as error: assert "fungrad[test]" in str(error)\n'
        "    else: raise SystemExit('no error')\n"
        "print('done')\n"
    )
    root = str(Path(fg.__file__).parents[1])
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={"PYTHONPATH": root}
    )
    assert result.stdout == "done\n", result.stderr
    assert issubclass(MissingExtraError, ImportError)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e12, 1e300])
@pytest.mark.parametrize("modes", ["fwd", "rev"])
def test_a_wrong_derivative_is_found_at_every_scale_of_the_values(scale, modes):
    x = np.array([0.3, 0.7])
    right = lambda x: scale * np.sin(x)  # noqa: E731
    check_grads(right, (x,), order=1, modes=modes)
    wrong_by = fg.custom_jvp(right)
    wrong_by.defjvps(lambda t, y, x: 2.5 * scale * np.cos(x) * t)
    with pytest.raises(GradientCheckError):
        check_grads(wrong_by, (x,), order=1, modes=modes)


@pytest.mark.parametrize("point", [1e-60, 1e-12, 1e-6, 0.3, 1e3])
def test_a_wrong_derivative_is_found_at_every_scale_of_the_arguments(point):
    right = lambda x: x**3  # noqa: E731
    check_grads(right, (point,), order=1)
    wrong_by = fg.custom_jvp(right)
    wrong_by.defjvps(lambda t, y, x: 2.5 * 3 * x**2 * t)
    with pytest.raises(GradientCheckError):
        check_grads(wrong_by, (point,), order=1)


def test_the_derivative_that_is_wrong_only_of_a_small_output():
    f = fg.custom_jvp(lambda x: (1e8 * np.sin(x), 1e-12 * np.sin(x)))
    f.defjvp(lambda p, t: (f(*p), (1e8 * np.cos(p[0]) * t[0], 2.5e-12 * np.cos(p[0]) * t[0])))
    with pytest.raises(GradientCheckError, match="output 1"):
        check_grads(f, (0.3,), order=1, modes="fwd")


@pytest.mark.parametrize("scale", [1e-3, 1e-6, 1e-9, 1e-12])
def test_a_wrong_entry_that_is_small_beside_others_is_found(scale):
    @fg.custom_jvp
    def f(x):
        return np.stack([np.sin(x), scale * np.sin(x)])

    f.defjvp(lambda p, t: (f(p[0]), np.stack([np.cos(p[0]), 2.5 * scale * np.cos(p[0])]) * t[0]))
    with pytest.raises(GradientCheckError, match=r"output 0\[1\]"):
        check_grads(f, [1.0], order=1, modes="fwd")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_small_entries_in_rounding_noise_are_not_judged(dtype):
    """An output rounded to a coarse unit, next to large slopes."""
    random = np.random.default_rng(0)
    large, top = dtype(1e3), 7 if dtype is np.float64 else 2
    for _ in range(40):
        slope = (10.0 ** random.uniform(-9, -1, 6)).astype(dtype)
        unit = (10.0 ** random.uniform(0, top, 6)).astype(dtype)
        x = random.normal(size=6).astype(dtype)

        def f(x, slope=slope, unit=unit):
            return np.concatenate([large * np.sin(x), x * slope + unit - unit])

        check_grads(f, [x], order=1)
