"""Names that modules bound before (`from math import sqrt`) stand for our functions while
a function that can call by them is traced, and for the originals at all other times.
"""

from __future__ import annotations

import functools
import importlib
import math
import sys
import threading
import types
import weakref
from collections import namedtuple
from math import sin as sine
from math import sqrt

import numpy as np
import pytest
from numpy import asarray

import fungrad as fg
from fungrad.errors import ArgumentError, GradientCutError
from fungrad.tracing import bound_names, interception
from fungrad.tracing.reachable_values import contents

# Of another class than the tables whose functions are replaced while a transform traces.
OWN = types.MappingProxyType({"sqrt": math.sqrt, "sine": math.sin, "asarray": np.asarray})


def untouched():
    return all(globals()[name] is original for name, original in OWN.items())


def root(x):
    return sqrt(x) * sine(x)


SLOPE = math.sin(1.3) / (2 * math.sqrt(1.3)) + math.sqrt(1.3) * math.cos(1.3)


class Model:
    def __init__(self, power=1):
        self.power = power
        self.rule = root

    def __call__(self, x):
        return self.inner(x) ** self.power

    def inner(self, x):
        return self.rule(x)

    @property
    def scale(self):
        return self.fixed(4.0)

    @staticmethod
    def fixed(x):
        return sqrt(x)

    @classmethod
    def made(cls, x):
        return cls()(x)


class Child(Model):
    pass


def decorated(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args)

    return wrapper


MODEL = Child()
CALLS = {
    "a global function": lambda x: root(x),
    "a nested function": lambda x: sum([root(y) for y in (x,)]),
    "a method": MODEL.inner,
    "an instance": MODEL,
    "an instance by name": lambda x: MODEL(x),
    "a class": lambda x: Child(1)(x),
    "a class method": Child.made,
    "a static method": lambda x: Model.fixed(x) * sine(x),
    "a partial": functools.partial(lambda a, x: a * root(x), 1.0),
    "a decorated function": decorated(root),
    "a closure": (lambda f: lambda x: f(x))(root),
    "a closure of a model": (lambda m: lambda x: m.inner(x) * m.scale / 2.0)(Model()),
    "a jitted function": fg.jit(root),
    "a jitted function that closes over one": (lambda f: fg.jit(lambda x: f(x) * sine(x)))(sqrt),
    "functions jitted themselves": (lambda f, g: lambda x: f(x) * g(x))(fg.jit(sqrt), fg.jit(sine)),
    "an array": lambda x: asarray([root(x), 1.0], float)[0],
}


@pytest.mark.parametrize("name", CALLS)
def test_names_that_a_function_can_call_by(name):
    f = CALLS[name]
    for derivative in (
        fg.grad(f),
        fg.jacobian(f),
        lambda x: fg.vjp(f, x)[1](1.0)[0],
        lambda x: fg.jvp(f, (x,), (1.0,))[1],
        fg.jit(fg.grad(f)),
        fg.jacfwd(lambda x: fg.value_and_grad(f)(x)[0]),
    ):
        assert derivative(1.3) == pytest.approx(SLOPE, rel=1e-12)
        assert untouched()
    assert np.ndim(fg.hessian(f)(1.3)) == 0 and untouched()
    np.testing.assert_allclose(fg.vmap(f)(np.array([1.3, 1.4])), [root(1.3), root(1.4)])


def test_a_local_function_and_its_nested_code():
    def f(x):
        def inner(y):
            return sqrt(y)

        return inner(x) + (lambda: sqrt(x))()

    assert fg.grad(f)(4.0) == 0.5


def test_functions_that_share_code_are_told_apart():
    def made(f):
        return lambda x: f(x)

    assert fg.grad(made(lambda x: x * 3.0))(1.3) == 3.0
    assert fg.grad(made(root))(1.3) == pytest.approx(SLOPE)
    for transform in (fg.hessian, fg.jacobian, fg.grad):
        transform(made(lambda x: x * 3.0))(1.3)
        transform(made(root))(1.3)


def test_the_other_functions_of_a_module_keep_the_originals_where_nobody_calls_them():
    def f(x):
        assert globals()["sqrt"] is OWN["sqrt"]
        return x

    fg.grad(f)(1.0)


def test_a_name_that_is_written_meanwhile_stays():
    names = {"__name__": "some_module", "sqrt": math.sqrt}
    code = "def f(x):\n    global sqrt\n    y = sqrt(x)\n    sqrt = other\n    return y\n"
    exec(code, names)
    names["other"] = other = object()
    assert fg.grad(names["f"])(4.0) == 0.25
    assert names["sqrt"] is other


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_names_stand_for_the_originals_after_an_exception(error):
    def f(x):
        assert globals()["sqrt"] is not OWN["sqrt"]
        root(x)
        raise error

    for transform in (fg.grad, fg.jit, fg.vmap, fg.hessian):
        with pytest.raises(error):
            transform(f)(np.ones(1))
        assert untouched()


def test_the_setting_turns_it_off():
    fg.config.intercept = False
    try:
        with pytest.raises(GradientCutError, match=r"fungrad\.config\.intercept is False"):
            fg.grad(root)(1.0)
    finally:
        fg.config.intercept = True


def test_another_thread_keeps_the_behaviour_of_the_originals():
    inside, done, found = threading.Event(), threading.Event(), []

    def other():
        inside.wait(60)
        found.append(root(1.3))
        found.append(fg.grad(root)(1.3))
        done.set()

    def f(x):
        inside.set()
        assert done.wait(60)
        return root(x)

    thread = threading.Thread(target=other)
    thread.start()
    assert fg.grad(f)(1.3) == pytest.approx(SLOPE)
    thread.join()
    assert found[0] == math.sqrt(1.3) * math.sin(1.3) and found[1] == pytest.approx(SLOPE)
    assert untouched()


# --- fg.intercept -----------------------------------------------------------------------


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose function is looked up by a string, so that reading the code misses it."""
    home = tmp_path / "hidden_names"
    home.mkdir()
    (home / "__init__.py").write_text("import importlib\n\n\ndef call(name, x):\n"
        "    return getattr(importlib.import_module('hidden_names.deep'), name)(x)\n")  # fmt: skip
    (home / "deep.py").write_text("from math import sqrt\n\n\ndef area(x):\n    return sqrt(x)\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("hidden_names")
    for name in ("hidden_names", "hidden_names.deep"):
        sys.modules.pop(name, None)
    interception._packages.pop("hidden_names", None)


def test_a_module_that_is_imported_meanwhile_binds_the_originals(package):
    with pytest.raises(GradientCutError, match=r"fg\.intercept"):
        fg.grad(lambda x: package.call("area", x))(4.0)
    assert sys.modules["hidden_names.deep"].sqrt is math.sqrt


def test_a_refusal_names_the_package_to_intercept(package):
    importlib.import_module("hidden_names.deep")
    with pytest.raises(GradientCutError, match=r'fg\.intercept\("hidden_names"\)') as caught:
        fg.grad(lambda x: package.call("area", x))(4.0)
    assert "deep.py:5 (area)" in str(caught.value) and "`sqrt`" in str(caught.value)


def test_an_intercepted_package(package):
    fg.intercept("hidden_names")  # its module `deep` is imported later
    deep = importlib.import_module("hidden_names.deep")
    for _ in range(2):
        assert fg.grad(lambda x: package.call("area", x))(4.0) == 0.25
        assert deep.sqrt is math.sqrt
    fg.grad(lambda x: x * deep.sqrt(4.0))(1.0)
    assert deep.area(4.0) == 2.0


@pytest.mark.parametrize("name", ["", "a b", ".x", 3, None, math])
def test_intercept_takes_a_name(name):
    with pytest.raises(ArgumentError, match="name of a package"):
        fg.intercept(name)


def test_names_are_found_through_default_values():
    for f in (
        lambda x, f=root: f(x),
        lambda x, *, f=root: f(x),
        lambda x, model=Model(): model.rule(x),  # noqa: B008
        lambda x, f=functools.partial(root): f(x),  # noqa: B008
    ):
        np.testing.assert_allclose(fg.grad(f)(1.3), SLOPE, rtol=1e-15)
        np.testing.assert_allclose(fg.jit(fg.grad(f))(1.3), SLOPE, rtol=1e-15)
        assert untouched()


OPS = {"exp": math.exp, "twice": lambda x: 2.0 * x}


def test_functions_in_a_table_are_replaced_while_it_traces():
    def f(x, name):
        return OPS[name](x)

    assert fg.grad(f)(1.0, "exp") == pytest.approx(math.e)
    assert fg.grad(f)(1.0, "twice") == 2.0
    assert fg.jit(lambda x: OPS["exp"](x) ** 2)(1.0) == pytest.approx(math.e**2)
    assert OPS["exp"] is math.exp
    with pytest.raises(KeyError):
        fg.grad(lambda x: OPS["exp"](x) + OPS["none"](x))(1.0)
    assert OPS["exp"] is math.exp


def test_a_table_of_tables_and_what_is_written_meanwhile():
    pairs = [("sin", (math.sin, 2.0)), ("cos", (math.cos, 3.0))]
    own = pairs[0][1][0]

    def f(x):
        pairs[1] = ("exp", (math.exp, 1.0))
        return sum(scale * function(x) for _, (function, scale) in pairs)

    assert fg.grad(f)(0.5) == pytest.approx(2.0 * math.cos(0.5) + math.exp(0.5))
    assert pairs[0][1][0] is own and pairs[1][0] == "exp"


# --- functions that close over functions of math, or are one --------------------------------


def closed(f):
    return lambda x: f(x)


class Holder:
    kept = math.exp
    static = staticmethod(math.exp)

    def __init__(self):
        self.held = math.exp

    def __call__(self, x):
        return self.held(x)

    def method(self, x):
        return (self.kept(x) + Holder.static(x)) / 2.0


HELD = {
    "itself": (lambda: math.exp),
    "a partial": (lambda: functools.partial(math.exp)),
    "a partial with an argument": (lambda: functools.partial(math.pow, math.e)),
    "a partial of a partial": (lambda: functools.partial(functools.partial(math.pow), math.e)),
    "an argument of a partial": (lambda: functools.partial(lambda f, x: f(x), math.exp)),
    "a named argument of a partial": (lambda: functools.partial(lambda x, f: f(x), f=math.exp)),
    "a closure": (lambda: closed(math.exp)),
    "a closure of a closure": (lambda: closed(closed(closed(math.exp)))),
    "a closure of a partial": (lambda: closed(functools.partial(math.pow, math.e))),
    "a default": (lambda: lambda x, f=math.exp: f(x)),
    "a named default": (lambda: lambda x, *, f=math.exp: f(x)),
    "a list": (lambda: (lambda fs: lambda x: fs[1](x))([math.sin, math.exp])),
    "a tuple": (lambda: (lambda fs: lambda x: fs[1](x))((math.sin, math.exp))),
    "a table": (lambda: (lambda fs: lambda x: fs["exp"](x))({"exp": math.exp})),
    "an attribute": Holder,
    "attributes of a class": (lambda: Holder().method),
    "map": (lambda: (lambda f: lambda x: next(map(f, [x])))(math.exp)),
    "jit of it": (lambda: closed(fg.jit(math.exp))),
    "checkpoint of it": (lambda: closed(fg.checkpoint(math.exp))),
}
VERBS = {
    "value": lambda f: fg.value_and_grad(f)(0.5)[1],
    "grad": lambda f: fg.grad(f)(0.5),
    "grad of grad": lambda f: fg.grad(fg.grad(f))(0.5),
    "jvp": lambda f: fg.jvp(f, (0.5,), (1.0,))[1],
    "vjp": lambda f: fg.vjp(f, 0.5)[1](1.0)[0],
    "linearize": lambda f: fg.linearize(f, 0.5)[1](1.0),
    "jacfwd": lambda f: fg.jacfwd(f)(0.5),
    "jacrev": lambda f: fg.jacrev(f)(0.5),
    "hessian": lambda f: fg.hessian(f)(0.5),
    "vmap": lambda f: fg.vmap(f)(np.array([0.5, 1.0]))[0],
    "jit": lambda f: fg.jit(f)(0.5),
    "jit of grad": lambda f: fg.jit(fg.grad(f))(0.5),
    "grad of jit": lambda f: fg.grad(fg.jit(f))(0.5),
    "vmap of grad": lambda f: fg.vmap(fg.grad(f))(np.array([0.5, 1.0]))[0],
    "guard": lambda f: fg.jit(f, branches="guard")(0.5),
    "scan": lambda f: fg.lax.scan(lambda c, _: (f(c), c), 0.5, None, length=1)[0],
    "cond": lambda f: fg.jit(lambda x: fg.lax.cond(x > 0, f, f, x))(0.5),
    "checkpoint": lambda f: fg.grad(fg.checkpoint(f))(0.5),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("held", HELD)
def test_functions_of_math_wherever_they_are_held(held, verb):
    for _ in range(2):
        assert VERBS[verb](HELD[held]()) == pytest.approx(math.exp(0.5), rel=1e-12)
    assert Holder.__dict__["kept"] is Holder().held


def test_what_is_held_is_the_original_at_all_other_times():
    made = HELD["a partial of a partial"]()
    held = [made, math.exp]
    tupled = (math.sin, 1.0)

    def f(x, own=tupled):
        return held[0](x) * own[0](x)

    cells = [cell.cell_contents for cell in f.__closure__]
    with pytest.raises(ZeroDivisionError):
        fg.grad(lambda x: f(x) * (1 // 0))(1.0)
    fg.grad(f)(1.0)
    assert held[0] is made and made.func is math.pow and f.__defaults__[0] is tupled
    assert [cell.cell_contents for cell in f.__closure__] == cells


def test_functions_of_the_same_code_that_hold_others():
    for _ in range(2):
        for f, slope in (
            (math.sin, math.cos(0.5)),
            (lambda x: 2.0 * x, 2.0),
            (math.exp, math.exp(0.5)),
        ):
            default = (lambda f: lambda x, f=f: f(x))(f)
            table = (lambda t: lambda x: t[0](x))([f])
            for g in (closed(f), closed(closed(f)), table, closed(default)):
                assert fg.grad(g)(0.5) == pytest.approx(slope)


def one(x):
    return 2.0 * x


def other(x):
    return sqrt(x)


CHOSEN = one


def by_global(x):
    return CHOSEN(x)


def test_a_global_that_is_bound_again(monkeypatch):
    for f, slope in ((one, 2.0), (other, 0.25), (one, 2.0), (math.sqrt, 0.25)):
        monkeypatch.setitem(globals(), "CHOSEN", f)
        for g in (by_global, closed(by_global), lambda x: CHOSEN(x)):
            assert fg.grad(g)(4.0) == pytest.approx(slope)


@pytest.mark.parametrize("place", ["module", "attribute", "class", "item"])
@pytest.mark.parametrize("transform", [fg.grad, lambda f: fg.jit(fg.grad(f)), fg.hessian])
def test_a_name_that_a_called_function_reads_is_bound_again(place, transform):
    class Holder:
        pass

    module, holder, table = types.ModuleType("fungrad_tests_bound"), Holder(), {}

    def bind(function):
        module.g = table["g"] = holder.g = function
        Holder.h = staticmethod(function)

    names = {"holder": holder, "table": table, "__name__": module.__name__}
    module.__dict__.update(names)
    call = {"module": "g", "attribute": "holder.g", "class": "holder.h", "item": "table['g']"}
    bind(math.sin)
    exec(f"def called(x): return {call[place]}(x) * 2.0", module.__dict__)

    space = {"called": module.called, "__name__": "fungrad_tests_calling"}
    exec("def f(x): return called(x) + 0.0", space)
    slopes = {math.sin: math.cos, math.cos: lambda x: -math.sin(x), math.exp: math.exp}
    bends = {math.sin: lambda x: -math.sin(x), math.cos: lambda x: -math.cos(x)}
    for function in (math.sin, math.cos, math.exp, math.sin):
        bind(function)
        want = bends.get(function, math.exp) if transform is fg.hessian else slopes[function]
        assert transform(space["f"])(0.7) == pytest.approx(2.0 * want(0.7))
        assert module.g is function


@pytest.mark.parametrize("call", ["g", "holder.g", "holder.h", "table['g']", "later"])
@pytest.mark.parametrize("transform", [fg.grad, lambda f: fg.jit(fg.grad(f))])
def test_a_name_is_bound_to_a_function_of_math_after_others(call, transform):
    class Holder:
        pass

    module, holder, table = types.ModuleType("fungrad_tests_bound"), Holder(), {}
    module.__dict__.update(holder=holder, table=table)
    exec(f"def called(x): return {call}(x) if table['on'] else x * x", module.__dict__)
    exec("def between(x): return called(x)", module.__dict__)
    f = closed(module.between)

    def bind(function):
        module.g = table["g"] = holder.g = function
        Holder.h = staticmethod(function)

    table["on"] = call != "later"
    bind(lambda x: x * x)
    assert transform(f)(0.7) == pytest.approx(1.4)
    bind(math.sin)
    module.later, table["on"] = math.sin, True
    for _ in range(2):
        assert transform(f)(0.7) == pytest.approx(math.cos(0.7))


def test_functions_of_one_code_with_other_globals():
    code = (lambda x: g(x)).__code__  # noqa: F821
    for own, slope in (
        (math.sin, math.cos(0.5)),
        (lambda x: x * x, 1.0),
        (math.exp, math.exp(0.5)),
    ):
        f = types.FunctionType(code, {"g": own, "__name__": "fungrad_tests_bound"})
        assert fg.grad(f)(0.5) == pytest.approx(slope)


def test_a_module_that_the_function_imports_itself(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "late_names.py").write_text("from math import sqrt\ndef g(x): return sqrt(x)\n")

    def f(x):
        import late_names

        return late_names.g(x)

    try:
        with pytest.raises(GradientCutError):  # its name for `sqrt` is bound within the trace
            fg.grad(f)(4.0)
        assert fg.grad(f)(4.0) == 0.25
    finally:
        sys.modules.pop("late_names", None)


def test_code_is_read_once_unless_other_code_is_bound(monkeypatch):
    readings = []
    read = bound_names._Reader.read
    monkeypatch.setattr(
        bound_names._Reader, "read", lambda *args: readings.append(args[1]) or read(*args)
    )
    space = {"np": np, "sqrt": math.sqrt, "scale": 2.0, "__name__": "fungrad_tests_read"}
    exec("def g(x): return sqrt(x) * scale", space)
    exec("def f(x): return np.sum(g(x) * data[0])", space)
    space["data"] = [np.ones(2)]
    f = space["f"]
    for i in range(3):
        space[f"further_{i}"] = len  # a name that the code does not read
        space["scale"], space["data"] = float(i), [np.zeros(2)]
        fg.grad(f)(4.0)
        fg.grad(lambda x: f(x))(4.0)
    assert len(readings) == 2  # of f, and of the lambda
    space["scale"] = space["sqrt"] = math.exp
    space["g"] = math.exp
    fg.grad(f)(4.0)
    assert readings[2:] == [f]


def test_what_was_read_keeps_no_array_alive():
    space = {"np": np, "data": np.ones(3), "__name__": "fungrad_tests_kept"}
    exec("def f(x): return x * np.sum(data)", space)
    fg.grad(space["f"])(1.0)
    gone = weakref.ref(space.pop("data"))
    assert gone() is None


def test_objects_that_hold_themselves():
    class Fit:
        def __init__(self, f):
            self.f = f
            self.partial = functools.partial(self.value)
            self.again = self

        def value(self, x):
            return self.f(x)

        def __call__(self, x):
            return self.partial(x)

    for f in (math.exp, Fit(math.exp)):
        fit = Fit(f)
        for g in (fit, fit.value, fit.partial, lambda x, fit=fit: fit.again.again(x)):
            assert fg.grad(g)(0.5) == pytest.approx(math.exp(0.5))


Functions = namedtuple("Functions", "total steps")
PAIR, NAMED = (np.sum, np.concatenate), Functions(np.sum, np.cumsum)
NESTED = (PAIR, NAMED, 1.0)


@pytest.mark.parametrize("held", [PAIR, NAMED, NESTED], ids=["tuple", "named tuple", "nested"])
def test_a_tuple_of_functions_is_one_object_in_a_trace_wherever_it_is_found(held):
    def f(x):
        same = [held is one for one in (PAIR, NAMED, NESTED)]
        assert sum(same) == 1 and NESTED[0] is PAIR and NESTED[1] is NAMED
        return PAIR[0](NAMED.steps(x) ** 2) if any(same) else x[0]

    def other(x):
        return fg.grad(f)(x) + (held is PAIR) * x

    x = np.array([1.0, 2.0])
    wanted = np.array([2 * 1.0 + 2 * 3.0, 2 * 3.0])
    np.testing.assert_array_equal(fg.grad(f)(x), wanted)
    np.testing.assert_array_equal(fg.jit(fg.grad(f))(x), wanted)
    np.testing.assert_array_equal(fg.jit(other)(x), wanted + (held is PAIR) * x)
    assert PAIR == (np.sum, np.concatenate) and NESTED == (PAIR, NAMED, 1.0)


def test_a_closure_holds_the_values_of_its_filled_cells():
    def outer():
        first = 1.0

        def f():
            return first, second

        before = contents(f.__closure__)
        second = 2.0
        return before, contents(f.__closure__)

    assert outer() == ([1.0], [1.0, 2.0])
