"""Code that cannot be traced: fg.config.opaque, fg.opaque, checked differences."""

from __future__ import annotations

import array
import warnings

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import ArgumentError, FungradError, GradientCheckError, OpaqueCallWarning

X = np.array([0.3, -0.7, 1.9])


def compiled(x):
    """Plain numbers go in and out, as of compiled code."""
    return np.array([np.sin(v) * v for v in array.array("d", x)])


def traceable(x):
    return np.sin(x) * x


def around(f):
    return lambda x: np.sum(np.exp(f(x * x)) * x)


@pytest.fixture(autouse=True)
def differences():
    with fg.opaque("differences"), warnings.catch_warnings():
        warnings.simplefilter("ignore", OpaqueCallWarning)
        yield


@pytest.mark.parametrize(
    ("transform", "tolerance"),
    [
        (fg.grad, 1e-9),
        (lambda f: fg.jacfwd(f), 1e-9),
        (fg.hessian, 1e-6),
        (lambda f: lambda x: fg.jvp(f, (x,), (x,))[1], 1e-9),
        (lambda f: fg.jit(fg.grad(f)), 1e-9),
        (lambda f: lambda x: fg.vmap(fg.grad(f))(np.stack([x, 1.5 * x])), 1e-8),
        (lambda f: lambda x: fg.vjp(f, x)[1](1.0)[0], 1e-9),
    ],
    ids=["grad", "jacfwd", "hessian", "jvp", "jit", "vmap", "vjp"],
)
def test_transforms(transform, tolerance):
    found, expected = transform(around(compiled))(X), transform(around(traceable))(X)
    assert np.allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_error_is_the_default():
    with fg.opaque("error"), pytest.raises(TypeError):
        fg.grad(around(compiled))(X)


def test_the_setting():
    assert fg.config.opaque == "error"
    with fg.opaque("error"):
        fg.config.opaque = "differences"
        try:
            with pytest.raises(TypeError):  # the block has precedence
                fg.grad(around(compiled))(X)
        finally:
            fg.config.opaque = "error"
    with pytest.raises(ArgumentError, match="differences"):
        fg.opaque("no")
    with pytest.raises(ArgumentError, match="differences"):
        fg.config.opaque = "no"


def test_one_warning_names_function_and_digits():
    def opaque_once(x):
        return float(np.sum(np.frombuffer(array.array("d", x)) ** 2))

    with pytest.warns(OpaqueCallWarning, match="opaque_once.*digits") as found:
        fg.grad(opaque_once)(X)
        fg.grad(opaque_once)(2 * X)
    assert len(found) == 1 and found[0].filename == __file__


def test_functions_are_as_before():
    code = compiled.__code__
    fg.grad(around(compiled))(X)
    assert compiled.__code__ is code
    assert compiled(X).dtype == float


class Model:
    """A fit keeps its result in the instance, which a later call reads."""

    def fit(self, x):
        self.center = np.frombuffer(array.array("d", x)).mean()
        return self

    def distance(self, x):
        return np.sum((x - self.center) ** 2)


def test_a_function_that_changes_its_arguments_is_no_boundary():
    """`fit` would be the nearest boundary, and the derivative through `center` would be lost."""
    model = Model()

    def job(x):
        return model.fit(x**2).distance(x)

    expected = fg.grad(lambda x: np.sum((x - np.mean(x**2)) ** 2))(X)
    assert np.allclose(fg.grad(job)(X), expected)
    assert model.center == np.mean(X**2)  # of this point, not of a step


def test_a_whole_function_is_checked_where_others_call_it():
    """Given to grad, `fit` may keep its results; as a part of another function it may not."""
    model = Model()

    def keeps(x):
        model.fit(x)
        return model.center**2

    def job(x):
        return keeps(x**2) + model.center

    mean = np.mean(X)
    assert np.allclose(fg.grad(keeps)(X), 2 * mean / 3)
    mean = np.mean(X**2)
    assert np.allclose(fg.grad(job)(X), (2 * mean + 1) * 2 * X / 3)


def test_integers_of_each_example():
    def counted(x):
        return {"steps": int(array.array("d", x)[0]), "text": "t", "y": x.sum() * x[0]}

    def job(x):
        found = counted(x)
        return found["y"] * found["steps"]

    xs = np.array([[1.5, 1.0], [2.5, 1.0]])
    assert np.allclose(fg.vmap(job)(xs), [job(x) for x in xs])
    found = fg.vmap(fg.grad(job))(xs)
    assert np.allclose(found, [[4.0, 1.5], [12.0, 5.0]])


def test_a_recorded_call_with_another_text():
    def labelled(x):
        total = sum(array.array("d", x))
        return {"sign": "+" if total > 0 else "-", "y": total**2}

    def job(x):
        found = labelled(x)
        return found["y"] * (1.0 if found["sign"] == "+" else -1.0)

    jitted = fg.jit(job)
    assert np.isclose(jitted(np.ones(2)), 4.0)
    with pytest.raises(fg.errors.StructureMismatchError):
        jitted(-np.ones(2))


def test_a_buffer_that_is_filled_is_no_result():
    def fill(x, out):
        out[:] = np.frombuffer(array.array("d", x))
        return np.sum(out)

    def job(x):
        out = np.zeros(3)
        return fill(x, out) + np.sum(out**2)

    assert np.allclose(fg.grad(job)(X), 1 + 2 * X)


def test_traced_values_in_attributes_and_closures():
    class Held:
        def __init__(self, x):
            self.x = [x, {"more": (x, 1.0)}]

        def total(self):
            return float(sum(array.array("d", self.x[0]))) * self.x[1]["more"][1]

    def job(x):
        held = Held(x)
        y = held.total()
        return y**2 + np.sum(held.x[0])

    assert np.allclose(fg.grad(job)(X), 2 * np.sum(X) + 1)


def test_a_result_of_python_floats_and_trees():
    def tree(x):
        return {"a": float(array.array("d", x)[0]) ** 2, "n": 3, "label": "text"}

    def job(x):
        found = tree(x)
        assert found["n"] == 3 and found["label"] == "text"
        return found["a"] * x[1]

    assert np.allclose(fg.grad(job)(X), [2 * X[0] * X[1], X[0] ** 2, 0.0])


def test_an_error_of_the_function_itself():
    def fails(x):
        array.array("d", x)
        raise ValueError("of the job itself")

    with pytest.raises(ValueError, match="of the job itself"):
        fg.grad(fails)(X)


def test_a_jump_is_no_derivative():
    def jumping(x):
        return float(array.array("d", x)[0] >= 0.0)

    with pytest.raises(GradientCheckError, match="jump"):
        fg.grad(jumping)(np.zeros(1))


def test_jit_of_recorded_types_runs_at_other_points():
    jitted = fg.jit(fg.grad(around(compiled)))
    jitted(X)
    assert np.allclose(jitted(1.2 * X), fg.grad(around(traceable))(1.2 * X), rtol=1e-7)


def test_threads_outside_of_the_block_call_the_function_itself():
    import threading

    seen = []

    def watched(x):
        thread = threading.Thread(target=lambda: seen.append(compiled(X)))
        thread.start()
        thread.join()
        return np.sum(compiled(x))

    fg.grad(watched)(X)
    assert all(np.array_equal(value, compiled(X)) for value in seen)


def test_threads_differentiate_at_the_same_time():
    """Each thread finds its own boundaries; what one drops, another keeps."""
    import threading

    codes = compiled.__code__, numbers_of.__code__
    wanted = {f: fg.grad(around(traceable))(X) for f in (compiled, numbers_of)}
    start = threading.Barrier(4)
    wrong: list[object] = []

    def work(k):
        start.wait()
        for i in range(2):
            f = (compiled, numbers_of)[(i + k) % 2]
            with fg.opaque("differences"):
                try:
                    found = fg.grad(around(f))(X)
                    if not np.allclose(found, wanted[f], rtol=1e-8):
                        wrong.append(found)
                except Exception as error:
                    wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert (compiled.__code__, numbers_of.__code__) == codes


def test_functions_that_the_garbage_collector_does_not_show():
    import gc

    def inner(x):
        return compiled(x) * 2.0

    gc.freeze()
    found = fg.grad(around(inner))(X)
    assert np.allclose(found, fg.grad(around(lambda x: traceable(x) * 2.0))(X), rtol=1e-8)


def numbers_of(x):
    """The same, by a helper that is no boundary: it fills a list of its caller."""
    filled = []

    def fill(v):
        filled.append(array.array("d", [v])[0])

    for v in x:
        fill(v)
    return np.array([np.sin(v) * v for v in filled])


def test_an_interrupt_leaves_the_functions_as_they_were():
    code = compiled.__code__
    fg.grad(around(compiled))(X)

    def interrupted(x):
        compiled(x)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fg.grad(interrupted)(X)
    assert compiled.__code__ is code


# --- fg.external(f, vjp="differences") ------------------------------------------------------------


def test_checked_differences_of_complex_arguments():
    def f(z):
        return np.abs(z) ** 2 * z

    z = np.array([1 + 2j, 0.5 - 0.3j])
    opaque = fg.external(f, vjp="differences")
    for g in (lambda h: fg.grad(lambda z: np.sum(h(z) * (1 + 0.5j)).real)(z),
              lambda h: fg.jvp(h, (z,), (1j * z,))[1]):  # fmt: skip
        assert np.allclose(g(opaque), g(f), rtol=1e-9)


def test_the_complex_step_where_it_is_right():
    calls = []

    def f(x):
        calls.append(np.asarray(x).dtype.kind)
        return np.exp(x) * x

    found = fg.grad(lambda x: np.sum(fg.external(f, vjp="differences")(x)))(X)
    assert "c" in calls and np.allclose(found, np.exp(X) * (1 + X), rtol=1e-14)


def test_no_complex_step_where_it_is_wrong():
    """np.abs drops the imaginary part."""
    opaque = fg.external(lambda x: np.abs(x) ** 3, vjp="differences")
    assert np.allclose(fg.grad(lambda x: np.sum(opaque(x)))(X), 3 * X * np.abs(X), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_steps_follow_the_size_of_arguments(scale):
    opaque = fg.external(lambda x: np.float64(np.abs(x).max() / scale) ** 2.5, vjp="differences")
    assert np.isclose(fg.grad(opaque)(2.0 * scale), 2.5 * 2**1.5 / scale, rtol=1e-8)


def test_noise_is_refused():
    random = np.random.default_rng(0)
    noisy = fg.external(lambda x: float(abs(x)) + random.normal(), vjp="differences")
    with pytest.raises(FungradError, match="noise"):
        fg.grad(noisy)(1.0)


def test_the_edge_of_the_domain():
    def f(x):
        if x < 1.0 - 1e-5:
            raise ValueError("outside")
        return float(abs(x)) ** 2

    assert np.isclose(fg.grad(fg.external(f, vjp="differences"))(1.0), 2.0, rtol=1e-6)


class Holder:
    """An object with an attribute that the program sets."""


def square_of_sum(x, factor):
    return sum(array.array("d", x)) ** 2 * factor


def with_a_buffer(x, times):
    buffer, total = np.zeros(1), 0.0
    for i in range(times):
        buffer[0] = i + 1
        total = total + by_buffer(x, buffer)
    return total


def with_a_row_of_traced_values(x, times):
    rows, total = np.zeros((times + 1, 2)), 0.0
    rows[0] = 1.0
    for i in range(times):
        total = total + by_buffer(x, rows[i])
        rows[i + 1] = x[0] * (i + 2) / X[0]
    return total


def with_a_list(x, times):
    numbers, total = [0.0], 0.0
    for i in range(times):
        numbers[0] = i + 1.0
        total = total + by_buffer(x, numbers)
        numbers.append(1.0)
    return total


def with_an_attribute(x, times):
    holder, total = Holder(), 0.0
    for i in range(times):
        holder.factor = np.float64(i + 1.0)
        total = total + by_attribute(x, holder)
    return total


def with_an_array_in_a_dict(x, times):
    table, total = {"a": np.zeros(2)}, 0.0
    for i in range(times):
        table["a"][:] = i + 1.0
        total = total + by_table(x, table)
    return total


def by_buffer(x, buffer):
    return square_of_sum(x, buffer[0])


def by_attribute(x, holder):
    return square_of_sum(x, holder.factor)


def by_table(x, table):
    return square_of_sum(x, table["a"][1])


CHANGED_LATER = (
    with_a_buffer, with_a_row_of_traced_values, with_a_list, with_an_attribute,
    with_an_array_in_a_dict,
)  # fmt: skip


@pytest.mark.parametrize("transform", [fg.grad, fg.jacfwd, fg.hessian])
@pytest.mark.parametrize("f", CHANGED_LATER)
def test_arguments_are_those_of_the_call(f, transform):
    compile_ = (CHANGED_LATER.index(f) + (transform is fg.jacfwd)) % 2 == 0

    def same(x):
        factors = [1.0] + [x[0] / X[0] if f is with_a_row_of_traced_values else 1.0] * 2
        return sum([np.sum(x) ** 2 * (i + 1) * c for i, c in enumerate(factors)])

    found = transform(lambda x: f(x, 3))
    found = fg.jit(found)(X) if compile_ else found(X)
    np.testing.assert_allclose(found, transform(same)(X), 1e-6)


FACTOR = np.zeros(1)


def by_a_global(x):
    return square_of_sum(x, FACTOR[0])


def test_what_a_function_reads_elsewhere_and_has_changed_is_noticed():
    def f(x):
        total = 0.0
        for i in range(3):
            FACTOR[0] = i + 1
            total = total + by_a_global(x)
        return total

    try:
        found = fg.grad(f)(X)
    except GradientCheckError as error:
        assert "by_a_global is opaque, and returned other numbers" in str(error)
    else:
        np.testing.assert_allclose(found, 12.0 * np.sum(X), 1e-9)
