"""Changes of what a compiled function reads outside of its arguments."""

from __future__ import annotations

import functools
import gc
import os
import threading
import types
import warnings
import weakref
from array import array
from collections import ChainMap, Counter, deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import CapturedStateWarning

RATE = 2.0
WEIGHTS = np.array([1.0, 2.0, 3.0])
X = np.ones(3)


def scaled(x: Any) -> Any:
    return x * RATE


def weighted(x: Any) -> Any:
    return np.sum(x * WEIGHTS)


class Model:
    scale = 2.0

    def __init__(self) -> None:
        self.rate = 2.0
        self.layers = [{"w": np.ones(3)}, {"w": np.ones(3)}]
        self.steps = 0

    @property
    def double(self) -> float:
        return 2.0 * self.rate

    def __call__(self, x: Any) -> Any:
        self.steps += 1
        for layer in self.layers:
            x = x * layer["w"]
        return np.sum(x) * self.double * self.scale


class Slotted:
    __slots__ = ("rate",)


class PrivatelySlotted:
    __slots__ = ("__rate",)

    def __init__(self) -> None:
        self.set(2.0)

    def set(self, rate: float) -> None:
        self.__rate = rate

    def __call__(self, x: Any) -> Any:
        return x * self.__rate


def changed_global() -> tuple[Callable[..., Any], Callable[[], None], str]:
    def change() -> None:
        globals()["RATE"] += 1.0

    return scaled, change, "`RATE` was 2.0 and is 3.0 now"


def changed_global_array() -> Any:
    def change() -> None:
        WEIGHTS[0] += 1.0

    return weighted, change, "`WEIGHTS` has changed"


def changed_closure() -> Any:
    rate = np.float32(2.0)

    def change() -> None:
        nonlocal rate
        rate = np.float32(3.0)

    return lambda x: x * rate, change, "`rate` was 2.0 and is 3.0 now"


def changed_default() -> Any:
    weights = np.ones(3)

    def f(x: Any, w: Any = weights) -> Any:
        return np.sum(x * w)

    return f, lambda: weights.fill(5.0), "`w` has changed"


def changed_attribute() -> Any:
    model = Model()
    return model, lambda: setattr(model, "rate", 3.0), "rate` was 2.0 and is 3.0 now"


def changed_nested_array() -> Any:
    model = Model()
    return lambda x: model(x), lambda: model.layers[1]["w"].fill(3.0), r"\['w'\]` has changed"


def hidden_class_attribute() -> Any:
    model = Model()
    return lambda x: model(x), lambda: setattr(model, "scale", 3.0), "`model.scale` has changed"


def changed_private_slot() -> Any:
    scaled = PrivatelySlotted()
    return scaled, lambda: scaled.set(3.0), "__rate` was 2.0 and is 3.0 now"


def changed_in_a_set() -> Any:
    scaled = {PrivatelySlotted()}
    change = next(iter(scaled)).set
    return lambda x: sum(f(x) for f in scaled), lambda: change(3.0), "__rate` was 2.0 and is 3.0"


def changed_slot() -> Any:
    slotted = Slotted()
    slotted.rate = 2.0
    return lambda x: x * slotted.rate, lambda: setattr(slotted, "rate", 3.0), "`slotted.rate` was"


def changed_item() -> Any:
    table = {"rate": 2.0}
    return lambda x: x * table["rate"], lambda: table.update(rate=3.0), r"`table\['rate'\]` was 2.0"


def changed_length() -> Any:
    held = [1.0]
    return lambda x: x * len(held), lambda: held.append(1.0), "`held` has changed"


def changed_deque() -> Any:
    held = deque([1.0, 2.0], maxlen=2)
    return lambda x: x * held[0], lambda: held.append(3.0), r"`held\[0\]` was 1.0 and is 2.0 now"


def changed_set() -> Any:
    held = {1.0}
    return lambda x: x * len(held), lambda: held.add(2.0), "`held` has changed"


def changed_partial() -> Any:
    w = np.ones(3)
    return functools.partial(lambda w, x: np.sum(w * x), w), lambda: w.fill(2.0), "has changed"


def changed_tuple() -> Any:
    w = (np.ones(3), 1.0)
    return lambda x: x * w[0] * w[1], lambda: w[0].fill(2.0), r"`w\[0\]` has changed"


def changed_function() -> Any:
    held = types.SimpleNamespace(f=lambda x: x * 2.0)
    return lambda x: held.f(x), lambda: setattr(held, "f", lambda x: x * 3.0), "`held.f` has"


def changed_defaults() -> Any:
    def f(x: Any, k: float = 2.0) -> Any:
        return x * k

    return f, lambda: setattr(f, "__defaults__", (3.0,)), "`f.__defaults__` has changed"


def changed_keyword_default() -> Any:
    def f(x: Any, *, k: float = 2.0) -> Any:
        return x * k

    return f, lambda: f.__kwdefaults__.update(k=3.0), "`k` was 2.0 and is 3.0 now"


def changed_code() -> Any:  # as a notebook's %autoreload does
    def f(x: Any) -> Any:
        return x * 2.0

    def g(x: Any) -> Any:
        return x * 3.0

    return f, lambda: setattr(f, "__code__", g.__code__), "`f.__code__` has changed"


def changed_order() -> Any:
    table = {"a": 1.0, "b": 2.0}

    def f(x: Any) -> Any:
        return functools.reduce(lambda total, v: total * x + v, table.values())

    return f, lambda: table.update(a=table.pop("a")), "`table` has changed"


def changed_numpy_function() -> Any:
    held = types.SimpleNamespace(act=np.tanh)
    return lambda x: held.act(x), lambda: setattr(held, "act", np.sin), "`held.act` has changed"


def changed_nn_function() -> Any:
    held = [fg.nn.relu]
    return lambda x: held[0](-x), lambda: held.__setitem__(0, fg.nn.gelu), r"`held\[0\]` has"


def changed_compiled_function() -> Any:
    held = {"f": fg.jit(lambda x: x * 2.0)}
    new = fg.jit(lambda x: x * 3.0)
    return lambda x: held["f"](x), lambda: held.update(f=new), r"`held\['f'\]` has changed"


def changed_module() -> Any:
    module = types.ModuleType("made_by_the_program")
    vars(module)["rate"] = 2.0
    return lambda x: x * module.rate, lambda: setattr(module, "rate", 3.0), "`module.rate` was 2"


def changed_metaclass() -> Any:
    class Meta(type):
        @property
        def rate(cls) -> float:
            return cls.held  # type: ignore[attr-defined, no-any-return]

    class Settings(metaclass=Meta):
        held = 2.0

    return lambda x: x * Settings.rate, lambda: setattr(Settings, "held", 3.0), "was 2.0 and is 3"


def changed_context() -> Any:
    rate = ContextVar("rate", default=2.0)
    return lambda x: x * rate.get(), lambda: rate.set(3.0), r"`rate.get\(\)` was 2.0 and is 3.0 now"


def changed_thread_local() -> Any:
    held = threading.local()
    held.rate = 2.0
    return lambda x: x * held.rate, lambda: setattr(held, "rate", 3.0), "`held.rate` was 2.0"


def changed_dict_of_a_subclass() -> Any:
    class Table(dict[str, float]):
        pass

    table = Table(rate=2.0)
    return lambda x: x * table["rate"], lambda: table.update(rate=3.0), r"`table\['rate'\]` was 2.0"


def changed_counter() -> Any:
    held = Counter(a=2)
    return lambda x: x * held["a"], lambda: held.update("a"), r"`held\['a'\]` was 2 and is 3 now"


def changed_chain() -> Any:
    held = ChainMap({}, {"rate": 2.0})
    return lambda x: x * held["rate"], lambda: held.maps[1].update(rate=3.0), r"\['rate'\]` was 2.0"


def changed_buffer() -> Any:
    held = bytearray([2])
    return lambda x: x * held[0], lambda: held.__setitem__(0, 3), "`held` has changed"


def changed_array_of_numbers() -> Any:
    held = array("d", [2.0])
    return lambda x: x * held[0], lambda: held.__setitem__(0, 3.0), "`held` has changed"


def changed_record() -> Any:
    held = np.zeros(2, [("a", float), ("b", int)])
    return lambda x: x + np.sum(held["a"]), lambda: held["a"].fill(3.0), "`held` has changed"


def changed_mask() -> Any:
    held = np.ma.array([1.0, 2.0], mask=[True, False])
    return (
        lambda x: x * np.ma.sum(held),
        lambda: held.mask.__setitem__(0, False),
        "`held` has changed",
    )


def changed_sparse_matrix() -> Any:
    held = pytest.importorskip("scipy.sparse").csr_matrix(np.eye(3))
    return lambda x: held @ x, lambda: held.data.fill(3.0), "`held.data` has changed"


def changed_environment() -> Any:
    os.environ["FUNGRAD_TEST_RATE"] = "2.0"

    def f(x: Any) -> Any:
        return x * float(os.environ["FUNGRAD_TEST_RATE"]) * float(os.getenv("FUNGRAD_TEST_RATE", 1))

    return f, lambda: os.environ.update(FUNGRAD_TEST_RATE="3.0"), "os.environ.*' and is b'3.0' now"


CASES = [
    changed_environment,
    changed_defaults, changed_keyword_default, changed_code, changed_order, changed_numpy_function,
    changed_nn_function, changed_compiled_function, changed_module, changed_metaclass,
    changed_context, changed_thread_local, changed_dict_of_a_subclass, changed_counter,
    changed_chain, changed_buffer, changed_array_of_numbers, changed_record, changed_mask,
    changed_sparse_matrix,
    changed_global, changed_global_array, changed_closure, changed_default, changed_attribute,
    changed_nested_array, hidden_class_attribute, changed_slot, changed_item, changed_length,
    changed_private_slot, changed_in_a_set, changed_deque, changed_set, changed_partial,
    changed_tuple, changed_function,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_change_compiles_anew_and_warns(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "RATE", 2.0)
    monkeypatch.delenv("FUNGRAD_TEST_RATE", raising=False)
    monkeypatch.setitem(globals(), "WEIGHTS", WEIGHTS.copy())
    f, change, words = case()
    compiled = fg.jit(f)
    gradient = fg.jit(fg.grad(lambda x: np.sum(f(x))))
    for _ in range(3):
        np.testing.assert_array_equal(compiled(X), f(X))
        gradient(X)
    change()
    with pytest.warns(CapturedStateWarning, match=words):
        value = compiled(X)
    np.testing.assert_array_equal(value, f(X))
    with pytest.warns(CapturedStateWarning, match=words):
        slope = gradient(X)
    np.testing.assert_array_equal(slope, fg.grad(lambda x: np.sum(f(x)))(X))


def test_each_way_of_a_call_compares() -> None:
    table = {"rate": 2.0}

    def f(xs: Any, n: int = 1, *, c: Any = 1.0) -> Any:
        return sum(xs) * table["rate"] * n * c

    for i, (args, options) in enumerate(
        [(([1.0, 2.0],), {}), (([1.0, 2.0],), {"c": 2.0}), (([1.0, 2.0], 3), {"c": 2.0})]
    ):
        compiled = fg.jit(f, static_argnums=1)
        compiled(*args, **options)
        table["rate"] = 3.0 + i
        with pytest.warns(CapturedStateWarning):
            assert compiled(*args, **options) == f(*args, **options)


def test_later_changes_are_found_within_a_tenth() -> None:
    table = {"rate": 2.0}
    f = fg.jit(lambda x: x * table["rate"])
    for _ in range(200):
        f(1.0)
    table["rate"] = 3.0
    with pytest.warns(CapturedStateWarning):
        late = [f(1.0) for _ in range(25)]
    assert late[-1] == 3.0


def test_always_compares_each_call_and_never_none() -> None:
    table = {"rate": 2.0}
    f = fg.jit(lambda x: x * table["rate"], verify="always")
    for _ in range(30):
        f(1.0)
    table["rate"] = 3.0
    with pytest.warns(CapturedStateWarning):
        assert f(1.0) == 3.0
    g = fg.jit(lambda x: x * table["rate"], verify="never")
    g(1.0)
    table["rate"] = 4.0
    assert g(1.0) == 3.0


def test_changes_that_no_result_depends_on_are_silent() -> None:
    model = Model()
    model.log = []  # type: ignore[attr-defined]
    traced: list[int] = []

    def f(x: Any) -> Any:
        traced.append(1)
        if model.steps < 0:
            x = x * 2.0
        return x * model.rate

    compiled = fg.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(50):
            assert compiled(1.0) == 2.0
            model.steps += 1
    assert len(traced) <= 4  # a place that changes without an effect is no longer compared
    assert compiled.cache_info()[:2] == (49, 1)


def test_programs_for_other_types_are_dropped_too() -> None:
    table = {"rate": 2.0}
    f = fg.jit(lambda x: x * table["rate"])
    f(1.0)
    f(X)
    table["rate"] = 3.0
    with pytest.warns(CapturedStateWarning):
        f(1.0)
    np.testing.assert_array_equal(f(X), 3.0 * X)
    table["rate"] = 4.0
    with pytest.warns(CapturedStateWarning, match="rate"):
        np.testing.assert_array_equal(f(np.ones(2)), [4.0, 4.0])  # a new trace
    np.testing.assert_array_equal(f(X), 4.0 * X)


@pytest.mark.parametrize("branches", [False, True])
def test_a_call_of_new_types_warns_of_a_change_with_an_effect(branches: bool) -> None:
    table = {"rate": 2.0, "count": 0}

    def f(x: Any) -> Any:
        table["count"] += 1
        if branches and np.sum(x) > 0.0:
            return x * table["rate"]
        return np.sin(x) * table["rate"]

    compiled = fg.jit(f)
    compiled(-1.0), compiled(np.float32(-1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(-X)  # only the counter has changed
    table["rate"] = 3.0
    with pytest.warns(CapturedStateWarning, match="rate"):
        compiled(np.full(2, -1.0))
    assert compiled(-1.0) == np.sin(-1.0) * 3.0


def test_functions_with_branches() -> None:
    table = {"rate": 2.0}
    f = fg.jit(lambda x: x * table["rate"] if x > 0.0 else -x)
    assert f(1.0) == 2.0
    assert f(-1.0) == 1.0
    table["rate"] = 3.0
    with pytest.warns(CapturedStateWarning):
        assert f(1.0) == 3.0


def test_effects_run_once_a_call_whatever_has_changed() -> None:
    held, seen = {"rate": 2.0, "calls": 0}, []

    def f(x: Any) -> Any:
        held["calls"] += 1
        fg.debug.callback(lambda value: seen.append(float(value)), x)
        if x > 0.0:
            fg.debug.callback(lambda value: seen.append(-float(value)), x)
            return x * held["rate"]
        return x

    compiled = fg.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (1.0, 2.0, -3.0, 4.0):
            compiled(x)
            held["calls"] += 1
    held["rate"] = 3.0
    with pytest.warns(CapturedStateWarning, match="rate"):
        assert compiled(5.0) == 15.0
    assert seen == [1.0, -1.0, 2.0, -2.0, -3.0, 4.0, -4.0, 5.0, -5.0]


@pytest.mark.parametrize(
    ("f", "first", "second"),
    [
        (lambda x, held: x if x > 0.0 else -x * held["rate"], 1.0, -1.0),
        (lambda x, held: np.sum(x) * (held["rate"] if len(x) == 1 else 1.0), X, X[:1]),
    ],
)
def test_a_change_without_effect_on_one_program_has_its_effect_on_another(
    f: Any, first: Any, second: Any
) -> None:
    held = {"rate": 1.0}
    compiled = fg.jit(lambda x: f(x, held))
    for rate in (1.0, 2.0, 3.0):  # no longer compared for the only program
        held["rate"] = rate
        compiled(first)
    assert compiled(second) == 3.0
    held["rate"] = 4.0
    with pytest.warns(CapturedStateWarning):
        compiled(first)
    assert compiled(second) == 4.0


def test_a_compiled_function_that_calls_itself() -> None:
    held = {"rate": 2.0}

    @functools.partial(fg.jit, static_argnums=1)
    def power(x: Any, n: int) -> Any:
        return power(x, n - 1) * x if n else held["rate"]

    assert power(3.0, 2) == 18.0
    held["rate"] = 4.0
    with pytest.warns(CapturedStateWarning):
        assert power(3.0, 2) == 36.0


def test_the_sign_of_a_zero_is_a_change() -> None:
    state = {"sign": 0.0}
    f = fg.jit(lambda x: np.copysign(x, state["sign"]))
    assert f(2.0) == 2.0
    state["sign"] = -0.0
    with pytest.warns(CapturedStateWarning):
        assert f(2.0) == -2.0


def test_nan_is_no_change() -> None:
    table = {"rate": float("nan"), "w": np.array([np.nan])}
    f = fg.jit(lambda x: x * table["rate"] + table["w"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            f(1.0)
            table["rate"] = float("nan")


def test_an_object_that_refuses_questions_is_left_alone() -> None:
    class Proxy:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    held = [Proxy(), 2.0]
    f = fg.jit(lambda x: x * held[1])
    assert f(1.0) == f(1.0) == 2.0


def test_a_class_without_the_name_of_its_module() -> None:
    class Compiled:
        """As Cython's class of functions, which has a descriptor for its instances."""

        __module__ = property(lambda self: "somewhere")  # type: ignore[assignment]
        rate = 2.0

        def __call__(self, x: Any) -> Any:
            return x * 2.0

    held = Compiled()
    assert fg.jit(lambda x: np.sum(held(x)))(np.ones(3)) == 6.0
    np.testing.assert_array_equal(fg.jit(fg.grad(lambda x: np.sum(held(x))))(np.ones(3)), 2.0)


def test_a_compiled_function_keeps_no_other_objects_alive() -> None:
    model = Model()
    f = fg.jit(model)
    f(X)
    gone = weakref.ref(model)
    del model, f
    gc.collect()
    assert gone() is None


class Stepper:
    def __init__(self, rate: float) -> None:
        self.rate, self.weights, self.steps = rate, np.ones(3), 0

    def value(self, x: Any) -> Any:
        return np.sum(x * self.weights) * self.rate + 0.0 * self.steps

    @functools.partial(fg.jit, static_argnums=0)
    def step(self, x: Any) -> Any:
        return self.value(x)


STATIC: dict[str, Callable[[Stepper], Callable[[Any], Any]]] = {
    "self": lambda model: model.step,
    "argument": lambda model: functools.partial(
        fg.jit(lambda model, x: model.value(x), static_argnums=0), model
    ),
    "keyword": lambda model: functools.partial(
        fg.jit(lambda x, model: model.value(x), static_argnames="model"), model=model
    ),
    "method": lambda model: functools.partial(
        fg.jit(lambda f, x: f(x), static_argnums=0), model.value
    ),
    "closure": lambda model: functools.partial(
        fg.jit(lambda f, x: f(x), static_argnums=0), lambda x: model.value(x)
    ),
}


@pytest.mark.parametrize("case", STATIC.values(), ids=list(STATIC))
def test_state_of_static_arguments(case: Any) -> None:
    model = Stepper(2.0)
    f = case(model)
    for _ in range(3):
        assert f(X) == 6.0
    for change, value in (
        (lambda: setattr(model, "rate", 3.0), 9.0),
        (lambda: model.weights.__setitem__(0, 4.0), 18.0),
        (lambda: setattr(model, "rate", 5.0), 30.0),
    ):
        change()
        with pytest.warns(CapturedStateWarning, match="has changed|was .* now"):
            assert f(X) == value


def test_state_of_the_data_of_a_node() -> None:
    model = Stepper(2.0)
    scaled = type(
        "Scaled", (), {"__init__": lambda self, x, model: vars(self).update(x=x, m=model)}
    )
    fg.tree_util.register_pytree_node(
        scaled, lambda s: ((s.x,), s.m), lambda model, xs: scaled(xs[0], model)
    )
    f = fg.jit(lambda s: s.m.value(s.x))
    assert f(scaled(X, model)) == 6.0
    model.rate = 3.0
    with pytest.warns(CapturedStateWarning, match="rate` was 2.0"):
        assert f(scaled(X, model)) == 9.0


def test_several_static_arguments_change_apart() -> None:
    first, second = Stepper(2.0), Stepper(3.0)
    f = fg.jit(Stepper.value, static_argnums=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(1, 6):
            assert (f(first, X), f(second, X)) == (first.value(X), second.value(X))
            first.rate = 2.0 + i
            assert f(second, X) == second.value(X)
            second.rate = 7.0 * i
            assert f(first, X) == first.value(X)


def grad_of_jit(value: Any) -> Any:
    return fg.grad(fg.jit(value))


def jacobian_of_jit(value: Any) -> Any:
    f = fg.jit(value)
    return lambda x: fg.jacfwd(f)(x)


def jit_in_jit(value: Any) -> Any:
    f = fg.jit(value)
    return fg.jit(fg.grad(lambda x: 1.0 * f(x)))


@pytest.mark.parametrize("case", [grad_of_jit, jacobian_of_jit, jit_in_jit])
def test_compiled_functions_in_other_transforms_compare(case: Any) -> None:
    model = Stepper(2.0)
    f = case(model.value)
    for rate in (2.0, 3.0, 4.0, 5.0):
        model.rate = rate
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):
                assert f(X).tolist() == [rate] * 3


def test_changes_at_calls_of_new_types_stay_compared() -> None:
    held = {"rate": 1.0}
    f = fg.jit(lambda x: np.sum(x) * held["rate"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(1, 6):
            held["rate"] = float(i)
            assert f(np.ones(i)) == i * i
        held["rate"] = 10.0
        assert f(np.ones(3)) == 30.0


@pytest.mark.parametrize("derivative", ["jacobian", "hessian"])
def test_sparse_derivatives_compare(derivative: str) -> None:
    pytest.importorskip("scipy.sparse")
    held = {"rate": 2.0, "calls": 0}

    def f(x: Any) -> Any:
        y = x**2 * held["rate"] + 0 * len(str(held["calls"]))
        return y if derivative == "jacobian" else np.sum(y)

    found = getattr(fg.sparse, derivative)(f)
    scale = 2.0
    for rate in (2.0, 3.0, 4.0, 5.0):
        before, held["rate"] = held["rate"], rate
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert found(np.ones(3)).toarray()[1, 1] == scale * rate
            held["calls"] += 1
            assert found(np.ones(3)).toarray()[1, 1] == scale * rate
        assert [w.category for w in seen] == [CapturedStateWarning] * (rate != before)
