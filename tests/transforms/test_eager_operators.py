"""Operators of an eager reverse mode, which record at once (transforms/engine/operators.py): as by
the Graph that jit records.
"""

import operator

import numpy as np
import pytest

import fungrad as fg

X = np.array([[0.5, -1.25], [2.0, 3.0]])
ROW = np.array([0.75, -2.0])
OTHERS = {
    "same shape": X + 4.0,
    "row": ROW,
    "column": ROW[:, None],
    "wider": np.ones((3, 2, 2)) * X,
    "one element": np.array([[3.0]]),
    "number": 2.5,
    "integer": 3,
    "float32": ROW.astype(np.float32),
    "integers": np.array([2, 3]),
    "booleans": np.array([True, False]),
    "boolean": False,
    "complex": ROW + 1j,
    "scalar": np.float64(1.5),
    "no axes": np.array(1.5),
    "empty": np.ones((0, 1, 1)),
}
OPERATORS = (operator.add, np.subtract, operator.mul, np.multiply, operator.truediv)


def _losses(apply, other):
    """Both orders of the operands, with the other one constant and differentiated."""
    yield lambda x: np.sum(np.abs(apply(x, other)) ** 2)
    yield lambda x: np.sum(np.abs(apply(other, x)) ** 2)
    yield lambda x: np.sum(np.abs(apply(x, x[0] * other)) ** 2)
    yield lambda x: np.sum(np.abs(apply(other * x[:, :1], x)) ** 2)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", OTHERS)
def test_operators_record_what_a_graph_records(name):
    for apply in OPERATORS:
        for loss in _losses(apply, OTHERS[name]):
            for x in (X, X.astype(np.float32)):
                got, want = fg.grad(loss)(x), fg.jit(fg.grad(loss))(x)
                assert got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol=1e-4 if x is not X else 1e-12)


def test_a_boolean_operand_masks_an_infinite_slope():
    inside = np.array([True, False])
    slope = fg.grad(lambda x: np.sum(np.sqrt(x) * inside))(np.array([4.0, 0.0]))
    np.testing.assert_array_equal(slope, [0.25, 0.0])


def test_an_operand_of_objects_is_an_array_of_their_values():
    def loss(x):
        return np.sum(x * np.array([x[0], 2.0], dtype=object))

    np.testing.assert_array_equal(fg.grad(loss)(ROW), [1.5, 2.0])


def test_times_are_refused_beside_floats():
    for multiply in (operator.mul, np.multiply):
        with pytest.raises(fg.errors.GradientCutError):
            fg.grad(lambda x: np.sum(multiply(x, np.array([1], "m8[s]")).astype(float)))(ROW)  # noqa: B023


def test_an_operand_that_is_written_into_later_keeps_its_numbers():
    def loss(x, weight):
        scaled = weight * x
        weight[:] = 0.0
        return np.sum(scaled)

    np.testing.assert_array_equal(fg.grad(loss)(ROW, np.array([2.0, 3.0])), [2.0, 3.0])


def test_reads_of_one_array_add_up():
    def loss(x):
        return np.sum(x[0] * x[1:]) + x[0, 1] * x[-1, -1] - np.sum(x[0])

    np.testing.assert_array_equal(fg.grad(loss)(X), fg.jit(fg.grad(loss))(X))
    assert np.signbit(fg.grad(lambda x: -0.0 * x[0, 0])(X))[0, 0]
