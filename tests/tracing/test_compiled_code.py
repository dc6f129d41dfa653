"""Compiled code that is given traced values raises a clear error: it neither crashes nor reads the
memory that they have left.
"""

from __future__ import annotations

import ctypes
import operator
import subprocess
import sys

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import MemoryAccessError, TracingError

QHULL = """
import sys, numpy as np, scipy.interpolate, scipy.spatial, fungrad as fg
points = np.vstack([np.eye(3), -np.eye(3)])

def f(x):
    p = points * x
    if class_[0] == "H":
        p = np.vstack([p.T, -np.ones(6)]).T
    if how == "written":
        p = np.ones((6, 3))
        p[:, 0] = x
    elif how == "listed":
        p = list(p)
    others = {"H": [np.zeros(np.shape(p)[1] - 1)], "L": [np.arange(6.0)]}.get(class_[0], [])
    made = getattr(scipy.interpolate if class_[0] == "L" else scipy.spatial, class_)(p, *others)
    return x * getattr(made, "volume", 1.0)

run = {"grad": fg.grad, "jit": fg.jit, "vmap": lambda f: lambda x: fg.vmap(f)(np.full(2, x))}
for line in sys.argv[1:]:
    class_, how, transform = line.split()
    try:
        run[transform](f)(1.5)
    except fg.errors.MemoryAccessError as error:
        text = str(error)
        assert "np.ascontiguousarray" in text and "(f)" in text and "fg.external" in text, text
        print(line, flush=True)
assert scipy.spatial.ConvexHull(points).volume > 1.0
assert fg.grad(lambda x: x * scipy.spatial.ConvexHull(points).volume)(1.5) > 1.0
assert fg.grad(lambda x: x * scipy.spatial.ConvexHull(fg.stop_gradient(points * x)).volume)(1.5) > 1
"""


def test_extension_classes_of_qhull_refuse_traced_points():
    pytest.importorskip("scipy")
    cases = [
        f"{name} {how} {transform}"
        for name in ("ConvexHull", "Delaunay", "Voronoi", "HalfspaceIntersection",
                     "LinearNDInterpolator")
        for how in ("traced", "written", "listed")
        if (name, how) != ("HalfspaceIntersection", "listed")  # takes no lists
        for transform in ("grad", "jit", "vmap")
    ]  # fmt: skip
    done = subprocess.run(  # SciPy's class crashes where it gets no ndarray
        [sys.executable, "-c", QHULL, *cases], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, cases), done.stderr[-2000:]


@pytest.mark.parametrize("name", ["ascontiguousarray", "asfortranarray", "require"])
@pytest.mark.parametrize("transform", [fg.grad, fg.jit])
def test_who_reads_a_name_of_numpy(name, transform):
    arranged = operator.methodcaller(name, [1.0, 2.0])  # compiled code, as that of Cython

    def by_compiled_code(x):
        found = arranged(np)
        assert found.tolist() == [1.0, 2.0]
        return operator.methodcaller(name, [x, x])(np)[0]

    with pytest.raises(MemoryAccessError, match=rf"np\.{name}.*\(by_compiled_code\)"):
        transform(by_compiled_code)(1.5)

    def by_what_getattr_found(x):
        return getattr(operator, "methodcaller")(name, [x, x])(np)[0]  # noqa: B009

    with pytest.raises(MemoryAccessError, match=rf"np\.{name}.*\(by_what_getattr_found\)"):
        transform(by_what_getattr_found)(1.5)

    def by_python(x):
        one = np.ascontiguousarray(x)[0] * np.asfortranarray([x, x])[1] * np.require([x])[0]
        two = getattr(np, name)([x])[0] * 1.0
        two *= getattr(
            np, name
        )([1.0])[0]  # fmt: skip
        three = [arrange([x]) for arrange in [getattr(module, name) for module in [np]]]
        from numpy import ascontiguousarray

        return one * two * three[0][0] * ascontiguousarray([x])[0]

    assert transform(by_python)(2.0) in (6 * 2.0**5, 2.0**6)  # x**6 and its derivative


def by_pointer(array):
    """The numbers of an array of doubles by the pointer in its C struct, as PyArray_DATA."""
    data = ctypes.c_void_p.from_address(id(array) + object.__basicsize__).value
    return np.array((ctypes.c_double * array.size).from_address(data))


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize(
    "transform",
    [
        fg.grad,
        fg.value_and_grad,
        fg.jit,
        lambda f: fg.jit(fg.grad(f)),
        lambda f: lambda x: fg.jvp(f, (x,), (x,)),
        fg.hessian,
        fg.jacfwd,
        fg.jacrev,
    ],
    ids=["grad", "value_and_grad", "jit", "jit of grad", "jvp", "hessian", "jacfwd", "jacrev"],
)
@pytest.mark.parametrize("use", ["alone", "factor", "single"])
def test_numbers_of_memory_that_traced_values_have_left_are_found(transform, use):
    def f(x, read=by_pointer):
        buffer = np.zeros(len(x) + 1)
        buffer[1:] = x
        found = np.sum(np.ones(4) if len(x) == 3 else read(buffer))
        if use == "single":
            found = np.float32(found)
        return found if use == "alone" and len(x) > 3 else found * np.sum(x)

    run = transform(f)
    for _ in range(2):
        run(np.arange(1.0, 4.0))  # the first traces of f are right
    with pytest.raises(TracingError, match=r"is nan, and .*reads their memory"):
        run(np.arange(1.0, 5.0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.complex64])
def test_nans_of_the_user_are_none_of_spoiled_memory(dtype):
    def f(x):
        buffer = np.zeros(3, dtype)
        buffer[0] = x
        return np.sum(np.abs(buffer)) * np.nan

    assert np.isnan(fg.grad(f)(2.0)) and np.isnan(fg.jit(f)(2.0))
    assert np.isnan(fg.grad(f)(np.nan))


def test_a_batch_computed_from_spoiled_memory_is_refused():
    def f(x):
        a = np.zeros(3)
        a[0] = x
        return np.sum(by_pointer(a)) * x

    xs = np.array([1.0, 2.0])
    with pytest.raises(TracingError, match="under vmap"):
        fg.vmap(f)(xs)
    with fg.opaque("differences"):
        assert np.allclose(fg.vmap(f)(xs), xs**2)
