"""Subclasses of ndarray over traced values: class, attributes, methods, protocols, units."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import MemoryAccessError

X = np.array([0.5, 1.5, 2.5])


class Labelled(np.ndarray):
    """The example of NumPy's guide: an attribute that views take over."""

    def __new__(cls, a, label=None):
        made = np.asarray(a).view(cls)
        made.label = label
        return made

    def __array_finalize__(self, obj):
        if obj is not None:
            self.label = getattr(obj, "label", None)

    def twice(self):
        return 2 * self


class Prior(Labelled):
    """The same, kept where arrays are joined."""

    __array_priority__ = 5.0


CALLS: list = []


class Wrapped(np.ndarray):
    """A class that counts the calls of `__array_wrap__`."""

    calls = CALLS

    def __array_wrap__(self, array, context=None, return_scalar=False):
        self.calls.append(context)
        made = super().__array_wrap__(array, context, return_scalar)
        made.by = None if context is None else context[0].__name__
        return made


class Unit:
    def __init__(self, powers):
        self.powers = {k: n for k, n in powers.items() if n}

    def __eq__(self, other):
        return isinstance(other, Unit) and self.powers == other.powers

    __hash__ = None

    def __mul__(self, other):
        keys = {*self.powers, *other.powers}
        return Unit({k: self.powers.get(k, 0) + other.powers.get(k, 0) for k in keys})

    def __pow__(self, n):
        return Unit({k: v * n for k, v in self.powers.items()})

    def __truediv__(self, other):
        return self * other**-1

    def __rtruediv__(self, one):
        return self**-1

    def __rmul__(self, value):
        return Measured(value, self)

    __array_ufunc__ = None


JOINS = {np.concatenate}


class Measured(np.ndarray):
    """Numbers with a unit, by `__array_ufunc__` and `__array_function__`, as packages of units."""

    def __new__(cls, value, unit):
        made = np.array(value, dtype=float).view(cls)
        made.unit = unit
        return made

    def __array_finalize__(self, obj):
        if obj is not None and not hasattr(self, "unit"):
            self.unit = getattr(obj, "unit", None)

    @property
    def value(self):
        return self.view(np.ndarray)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        units = [getattr(x, "unit", Unit({})) for x in inputs]
        plain = [getattr(x, "value", x) for x in inputs]
        out = kwargs.get("out")
        if out:
            kwargs["out"] = tuple([x.value for x in out])
        found = super().__array_ufunc__(ufunc, method, *plain, **kwargs)
        if found is NotImplemented:
            return found
        if ufunc is np.multiply:
            unit = units[0] * units[1]
        elif ufunc is np.divide:
            unit = units[0] / units[1]
        elif ufunc is np.power:
            unit = units[0] ** inputs[1]
        elif ufunc in (np.add, np.subtract):
            assert units[0] == units[-1]
            unit = units[0]
        else:
            raise TypeError(ufunc)
        if out:
            out[0].unit = unit
            return out[0]
        return Measured(found, unit)

    def __array_function__(self, func, types, args, kwargs):
        if func in JOINS:
            plain = [x.value for x in args[0]]
            found = super().__array_function__(func, types, (plain, *args[1:]), kwargs)
            return Measured(found, args[0][0].unit)
        return super().__array_function__(func, types, args, kwargs)


M, S = Unit({"m": 1}), Unit({"s": 1})


def of_label(x):
    """What a plain call does with labels, and a number."""
    y = Labelled(x, "a")
    assert type(y).__name__ == "Labelled"
    assert isinstance(y, Labelled)
    assert y.__class__ is Labelled
    z = np.sin(y.twice()) + 1
    assert z.label == "a"
    assert z[1:].reshape(1, -1).T.label == "a"
    assert np.sum(z).label == "a"
    assert isinstance(z[0], np.float64)
    assert isinstance(np.asanyarray(z), Labelled)
    assert not isinstance(np.asarray(z), Labelled)
    assert z.view(np.ndarray).__class__ is np.ndarray
    z[0] = 3.0
    z += 1
    z *= y
    assert z.copy().label == "a"
    return float(np.asarray(z.mean() + z.max() + z.std() + z.cumsum()[-1])) + np.asarray(z)[1]


def test_a_subclass_keeps_its_attributes_and_methods():
    value, slope = fg.value_and_grad(of_label)(X)
    assert np.allclose(value, of_label(X))
    e = 1e-6
    wanted = [(of_label(X + e * d) - of_label(X - e * d)) / (2 * e) for d in np.eye(3)]
    assert np.allclose(slope, wanted)
    assert np.array_equal(fg.jit(fg.grad(of_label))(X), slope)
    assert np.allclose(
        fg.vmap(fg.grad(of_label))(np.stack([X, X + 1])), [slope, fg.grad(of_label)(X + 1)]
    )


FUNCTIONS = {
    "concatenate": lambda a: np.concatenate([a, a]),
    "stack": lambda a: np.stack([a, a]),
    "append": lambda a: np.append(a, a),
    "flip": np.flip,
    "roll": lambda a: np.roll(a, 1),
    "where": lambda a: np.where(a > 2, a, 0.0),
    "median": np.median,
    "percentile": lambda a: np.percentile(a, 30, axis=0),
    "outer": lambda a: np.outer(a[0], a[0]),
    "dot": lambda a: np.dot(a[0], a[0]),
    "matmul": lambda a: a @ a,
    "einsum": lambda a: np.einsum("ij,jk", a, a),
    "sort": np.sort,
    "pad": lambda a: np.pad(a, 1),
    "kron": lambda a: np.kron(a, a),
    "triu": np.triu,
    "cumsum": np.cumsum,
    "sum": np.sum,
    "mean": lambda a: a.mean(axis=0),
    "std": np.std,
    "max": np.max,
    "norm": lambda a: np.linalg.norm(a, axis=0),
    "inv": lambda a: np.linalg.inv(a + np.eye(3)),
    "svd": lambda a: np.linalg.svd(a).U,
    "round": lambda a: np.round(a, 1),
    "take": lambda a: np.take(a, [0]),
    "copy": np.copy,
    "method copy": lambda a: a.copy(),
    "fft": lambda a: np.fft.fft(a).real,
    "item": lambda a: a[0, 0],
    "row": lambda a: a[0],
    "mask": lambda a: a[np.asarray(a) > 1],
    "modf": lambda a: np.modf(a)[0],
    "reduce": np.add.reduce,
    "split": lambda a: np.split(a, 3)[0],
}


@pytest.mark.parametrize("kind", [Labelled, Prior])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_have_the_classes_and_attributes_of_numpys(name, kind):
    a = np.arange(1.0, 10.0).reshape(3, 3)
    plain = FUNCTIONS[name](kind(a, "a"))

    def f(x):
        found = FUNCTIONS[name](kind(x, "a"))
        assert found.__class__ is plain.__class__
        assert getattr(found, "label", None) == getattr(plain, "label", None)
        return np.asarray(found)

    assert np.allclose(fg.vjp(f, a)[0], np.asarray(plain))


def test_a_plain_instance_beside_a_traced_value_becomes_a_traced_one():
    held = Labelled(np.ones(3), "p")

    def f(x):
        for found in (held * x, x * held, np.multiply(x, held), held + x, x - held):
            assert isinstance(found, Labelled)
            assert found.label == "p"
        return np.sum(np.asarray(held * x**2))

    assert np.array_equal(fg.grad(f)(X), 2 * X)
    assert held.label == "p"


def test_array_wrap_is_called_by_ufuncs():
    def f(x):
        Wrapped.calls.clear()
        y = np.exp(x.view(Wrapped))
        assert len(Wrapped.calls) == 1
        assert y.by == "exp"
        return np.sum(np.asarray(y))

    f(X)
    assert np.allclose(fg.grad(f)(X), np.exp(X))


def test_a_view_writes_into_its_base():
    def f(x):
        y = 2 * x
        y.view(Labelled)[0] = 5.0
        return np.sum(y**2)

    assert np.array_equal(fg.grad(f)(X), [0.0, *8 * X[1:]])


def test_memory_of_an_instance_is_not_read():
    def f(x):
        return np.ndarray.view(x.view(Labelled), np.ndarray).sum()

    with pytest.raises((MemoryAccessError, TypeError, fg.errors.FungradError)):
        fg.grad(f)(X)


def energy(v):
    mass = Measured(2.0, Unit({"kg": 1}))
    e = 0.5 * mass * v**2
    assert e.unit == Unit({"kg": 1, "m": 2, "s": -2})
    return e


def test_units_go_through_gradients():
    v = Measured(3.0, M / S)
    value, slope = fg.value_and_grad(energy)(v)
    assert isinstance(value, Measured)
    assert value.value == 9.0
    assert value.unit == Unit({"kg": 1, "m": 2, "s": -2})
    assert isinstance(slope, Measured)
    assert slope.value == 6.0
    assert slope.unit == Unit({"kg": 1, "m": 1, "s": -1})
    curvature = fg.hessian(energy)(v)
    assert curvature.value == 2.0
    assert curvature.unit == Unit({"kg": 1})
    compiled = fg.jit(fg.grad(energy))(v)
    assert compiled.value == 6.0
    assert compiled.unit == slope.unit


def test_units_in_trees_and_batches():
    def f(d):
        return {"area": d["x"] * d["y"], "way": np.concatenate([d["x"], d["x"]])}

    d = {"x": Measured([1.0, 2.0], M), "y": Measured(3.0, M)}
    found = fg.jacobian(f)(d)
    assert np.array_equal(found["area"]["x"].value, 3 * np.eye(2))
    assert found["area"]["x"].unit == M
    assert found["way"]["x"].unit == Unit({})
    batched = fg.vmap(energy)(Measured(X, M / S))
    assert np.allclose(batched.value, X**2)
    assert batched.unit == Unit({"kg": 1, "m": 2, "s": -2})
    out, tangent = fg.jvp(energy, (Measured(3.0, M / S),), (Measured(1.0, M / S),))
    assert (out.value, tangent.value) == (9.0, 6.0)


def test_a_traced_operand_has_no_attribute_that_code_for_units_asks_for():
    """`getattr(x, "value", x)` in code for units would take the value without its derivative."""
    unit = Measured(2.0, M)
    assert fg.grad(lambda x: np.sum((x * unit).value))(3.0) == 2.0
    assert fg.grad(lambda x: np.sum((unit / (unit * x)).value))(2.0) == -0.25


def test_units_of_astropy():
    u = pytest.importorskip("astropy.units")

    def way(t):
        return 5.0 * u.km / u.s**2 * t**2 / 2

    slope = fg.grad(way)(3.0 * u.s)
    assert str(slope) == "15.0 km / s"
    assert str(fg.hessian(way)(3.0 * u.s)) == "5.0 km / s2"
    assert str(fg.jit(fg.grad(way))(3.0 * u.s)) == "15.0 km / s"
    assert fg.grad(lambda x: (x * u.km).to_value(u.m))(2.0) == 1000.0


A = np.array([0.3, 0.7, 1.2])
B = np.array([[1.0, 0.3, 0.1], [0.2, 2.0, 0.4], [0.5, 0.1, 3.0]])
BESIDE = {
    "clip": lambda s, x: np.clip(s, x, 2.0),
    "clip of the traced one": lambda s, x: np.clip(x, 0.55, s),
    "method clip": lambda s, x: s.clip(x, 2.0),
    "average": lambda s, x: np.average(x, weights=s),
    "nanmean": lambda s, x: np.nanmean(s * x),
    "ptp": lambda s, x: np.ptp(x * s),
    "trapezoid": lambda s, x: np.trapezoid(x, s),
    "polyval": lambda s, x: np.polyval(x, s),
    "polyval at the traced one": lambda s, x: np.polyval(s, x),
    "stack": lambda s, x: np.stack([x, s]),
    "union1d": lambda s, x: np.union1d(s, x),
    "solve": lambda s, x: np.linalg.solve(B.view(type(s)), x),
    "solve for the subclass": lambda s, x: np.linalg.solve(B * x, s),
    "eigenvalues": lambda s, x: np.linalg.eigh(B * s * x)[0],
    "singular vectors": lambda s, x: np.abs(np.linalg.svd(B * s * x)[2]),
    "accumulate": lambda s, x: np.maximum.accumulate(s * x),
}
for _name in vars(np):
    _ufunc = getattr(np, _name)
    if isinstance(_ufunc, np.ufunc) and _ufunc.nin == 2 and _ufunc.nout == 1:
        BESIDE[f"s - {_name}(s, x)"] = lambda s, x, u=_ufunc: s - u(s, x)
        BESIDE[f"{_name}(x, s) - s"] = lambda s, x, u=_ufunc: u(x, s) - s


@pytest.mark.parametrize("kind", [Labelled, Prior, Wrapped])
@pytest.mark.parametrize("name", BESIDE)
def test_a_plain_instance_beside_a_traced_value(name, kind):
    f = BESIDE[name]
    s, x = A.view(kind), np.array([0.5, 0.6, 2.5])
    if kind is not Wrapped:
        s.label = "a"
    try:
        plain = f(s, x)
    except (TypeError, ValueError):  # of integers, of booleans, of matrices
        return

    def g(x):
        found = f(s, x)
        assert found.__class__ is plain.__class__
        assert getattr(found, "label", None) == getattr(plain, "label", None)
        return np.asarray(found) * 1.0

    assert np.allclose(fg.jit(g)(x), np.asarray(plain))
    out, pullback = fg.vjp(g, x)
    assert np.allclose(out, np.asarray(plain))
    wanted = fg.vjp(lambda x: np.asarray(f(A, x)) * 1.0, x)[1](np.ones(np.shape(out)))
    assert np.allclose(pullback(np.ones(np.shape(out))), wanted, equal_nan=True)


def test_an_array_without_axes_is_a_number_and_a_condition():
    def f(x):
        s = x.view(Labelled)
        y = fg.lax.cond(np.sum(s) > 1, lambda: s * math.exp(np.sum(s)), lambda: s)
        buffer = np.zeros(())
        buffer[()] = s[0]
        return np.sum(np.asarray(y)) * float(np.max(s)) + math.sin(buffer) * np.full(2, np.sum(s))

    def plain(x):
        total = np.sum(x)
        return total * np.exp(total) * np.max(x) + np.sin(x[0]) * np.full(2, total)

    for transform in (fg.jit, fg.jacobian, lambda f: fg.jit(fg.jacobian(fg.jacobian(f)))):
        assert np.allclose(transform(f)(A), transform(plain)(A))


@pytest.mark.parametrize(
    "use",
    [
        lambda s: np.zeros((2, 3)) == [s, 0 * s],
        lambda s: np.ones((2, 3)) - (s, s),
        lambda s: np.add(np.ones((2, 3)), [s, s]),
        lambda s: B[:2].view(Labelled) * [s, s],
    ],
)
def test_a_list_of_instances_beside_a_plain_array_is_an_error(use):
    """NumPy takes the memory of the instances; `==` was false for each element, silently."""
    with pytest.raises(MemoryAccessError, match=r"np\.stack"):
        fg.grad(lambda x: np.sum(np.asarray(use(x.view(Labelled)))))(A)


@pytest.mark.parametrize("name", ["norm.logpdf", "linalg.solve", "linalg.expm"])
def test_functions_of_scipy_take_the_values_of_an_instance(name):
    scipy = pytest.importorskip("scipy")
    calls = {
        "norm.logpdf": lambda s, m: scipy.stats.norm.logpdf(s, m[0]),
        "linalg.solve": lambda s, m: scipy.linalg.solve(m, s),
        "linalg.expm": lambda s, m: scipy.linalg.expm(m),
    }
    f = calls[name]
    wanted = fg.grad(lambda m: np.sum(f(A, m)))(B)
    assert np.allclose(fg.grad(lambda m: np.sum(f(A.view(Labelled), m.view(Labelled))))(B), wanted)
