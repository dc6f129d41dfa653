"""The facts that primitives declare, each held against `eval` on all samples; and wrong ones."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest
from checks import OURS, outputs, samples_of
from samples import Sample

import fungrad as fg
from fungrad.compiler.numpy_backend import scalar_program
from fungrad.compiler.scalar.emitter import DTYPES
from fungrad.compiler.scalar.planning import computed_in
from fungrad.errors import MissingRuleError
from fungrad.extend import elementwise, general, linear
from fungrad.ir.graph import Equation, Graph, Literal, Variable
from fungrad.primitives.cotangents import Masked
from fungrad.primitives.facts import (
    ARITHMETIC,
    EXACT,
    FACTORS,
    FOREIGN,
    FUNCTION,
    NOTHING,
    OPERANDS,
    SPACES,
    TERMS,
    Along,
    Work,
    is_view,
    rounding_of,
    sections_of,
    whole,
    work_of,
)
from fungrad.primitives.primitive import Primitive
from fungrad.tracing.memory_order import axes_of, follow, memory_layout, one_order
from fungrad.tracing.trace import typeof
from fungrad.transforms.engine.reverse import linearized

NAMES = sorted(OURS)


def run(primitive: Primitive, args, params):
    """The outputs of `eval`, without warnings."""
    with np.errstate(all="ignore"):
        return outputs(primitive, primitive.eval(*args, **params))


def equation_of(primitive: Primitive, sample: Sample) -> Equation:
    """The equation that applies a primitive to a sample."""
    inputs = tuple(
        Literal(a) if type(a) in (int, float) else Variable(typeof(a)) for a in sample.args
    )
    types = primitive.infer([a.type for a in inputs], sample.params)
    return Equation(primitive, inputs, tuple(map(Variable, types)), sample.params)


def same_bits(x, y) -> bool:
    """Whether values are equal, to the sign of zeros; a NaN is equal to a NaN."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind not in "fc":
        return bool(np.all(x == y))
    signs = [(np.signbit(a), np.signbit(b)) for a, b in ((x.real, y.real), (x.imag, y.imag))]
    with np.errstate(all="ignore"):
        nan = np.isnan(x) & np.isnan(y)
    return bool(np.all(nan | ((x == y) & np.all([a == b for a, b in signs], axis=0))))


# --- the laws -----------------------------------------------------------------------------


def law_pure(primitive: Primitive, sample: Sample) -> int:
    """The same outputs twice, of arguments that are as they were."""
    if not primitive.pure:
        return 0
    before = copy.deepcopy(sample.args)
    first = copy.deepcopy(run(primitive, sample.args, sample.params))
    again = run(primitive, sample.args, sample.params)
    for x, y in zip((*first, *before), (*again, *sample.args), strict=True):
        if typeof(x).dtype != object:
            assert same_bits(x, y), f"{primitive.name} is not pure"
    return 1


def law_view(primitive: Primitive, sample: Sample) -> int:
    """A view shares memory with its argument, and nothing is copied."""
    if not primitive.view or len(sample.args) != 1:
        return 0
    (x,) = sample.args
    if type(x) is not np.ndarray or not x.size or not x.ndim:
        return 0
    for output in run(primitive, sample.args, sample.params):
        if type(output) is np.ndarray and output.size:
            assert np.shares_memory(x, output), f"{primitive.name} is no view"
    assert is_view(equation_of(primitive, sample))
    return 1


def law_commutative(primitive: Primitive, sample: Sample) -> int:
    """To change the places of the arguments changes no bit."""
    if not primitive.commutative or any(typeof(a).dtype.kind == "c" for a in sample.args):
        return 0
    x, y = sample.args
    (found,), (swapped,) = (run(primitive, args, sample.params) for args in ((x, y), (y, x)))
    assert same_bits(found, swapped), f"{primitive.name} is not commutative"
    return 1


def law_cost(primitive: Primitive, sample: Sample) -> int:
    """A primitive without cost computes nothing: each element of its outputs is one of its inputs,
    or zero, or one. Other costs are for outputs with elements, and never negative.
    """
    equation = equation_of(primitive, sample)
    cost = work_of(equation)
    if cost is None or any(t.type.dtype == object for t in (*equation.inputs, *equation.outputs)):
        return 0
    assert type(cost) is Work and min(cost) >= 0 and all(type(n) is int for n in cost)
    if primitive.cost != 0 or not sample.args:
        return 1
    assert cost == NOTHING
    known = np.concatenate([np.ravel(np.asarray(a)).astype(complex) for a in sample.args])
    if primitive.name in MADE:
        return 1
    for output in run(primitive, sample.args, sample.params):
        made = np.ravel(np.asarray(output)).astype(complex)
        near = [np.isclose(made, part) for part in (known.real[:, None], known[:, None])]
        found = np.any(np.concatenate(near), axis=0) | np.isin(made, (0, 1)) | np.isnan(made)
        assert np.all(found), f"{primitive.name} computes something"
    return 1


def law_kink(primitive: Primitive, sample: Sample) -> int:
    """The slopes to both sides differ where it says so, and agree elsewhere: along a direction of
    its own for each element.
    """
    x = sample.args[0] if sample.args else None
    if primitive.kink is None or getattr(x, "dtype", None) != np.float64 or not x.size:
        return 0
    for values in (x, np.round(x), np.zeros_like(x), np.abs(np.round(x)) + 1.0):
        args = [values, *[np.abs(np.round(y)) for y in sample.args[1:]]]
        here = bool(np.any(primitive.kink(*args, **sample.params)))
        ways = [np.random.default_rng(0).uniform(0.5, 2.0, np.shape(a)) for a in args]
        ways[1:] = [w * -0.7 if primitive.cuts is not True else w for w in ways[1:]]
        (y,) = run(primitive, args, sample.params)
        sides = []
        for h in (2.0**-20, -(2.0**-20)):
            moved = [a + h * w for a, w in zip(args, ways, strict=True)]
            sides.append((run(primitive, moved, sample.params)[0] - y) / h)
        differ = not np.allclose(*sides, rtol=1e-3, atol=1e-3, equal_nan=True)
        assert differ == here, f"{primitive.name} has another kink at {args}: {sides}"
    return 1


def law_scalar(primitive: Primitive, sample: Sample) -> int:
    """A scalar program has the results of `eval` for each element, except for the rounding of C's
    library; elements for which it raises are left to arrays.
    """
    args = [np.asarray(a) for a in sample.args]
    if primitive.scalar is None or any(a.dtype not in DTYPES for a in args):
        return 0
    inputs = tuple(
        Literal(a) if type(a) in (int, float) else Variable(typeof(b).with_shape(()))
        for a, b in zip(sample.args, args, strict=True)
    )
    types = primitive.infer([a.type for a in inputs], sample.params)
    equation = Equation(primitive, inputs, tuple(map(Variable, types)), sample.params)
    if computed_in(equation) is None or types[0].dtype not in DTYPES:
        return 0
    with pytest.MonkeyPatch.context() as patch:  # whatever it costs
        free = scalar_program.COSTS._replace(transfer=-1e12)
        patch.setattr(scalar_program, "COSTS", free)
        of_numbers = scalar_program.of_equation(equation, lambda *numbers: (None,))
    assert of_numbers is not None, f"{primitive.name} has no scalar program"
    for each in zip(*[np.ravel(a) for a in np.broadcast_arrays(*args)], strict=True):
        (found,) = of_numbers(*[x.item() for x in each])
        if found is None:
            continue
        (expected,) = run(primitive, each, sample.params)
        np.testing.assert_allclose(found, expected, rtol=4e-15, err_msg=primitive.name)
    return 1


def law_inline(primitive: Primitive, sample: Sample) -> int:
    """The Graph of `eval` has the results of `eval`, call after call."""
    if not primitive.inline:
        return 0
    graph = fg.make_jaxpr(lambda *args: primitive.eval(*args, **sample.params))(*sample.args)
    for _ in range(2):
        expected = run(primitive, sample.args, sample.params)
        for x, y in zip(fg.evaluate(graph, *sample.args), expected, strict=True):
            assert same_bits(x, y), f"{primitive.name} is not what its Graph is"
    return 1


def law_reduces(primitive: Primitive, sample: Sample) -> int:
    """The ufunc reduces the axes to the same bits."""
    if primitive.reduces is None:
        return 0
    (expected,) = run(primitive, sample.args, sample.params)
    found = primitive.reduces.reduce(sample.args[0], axis=sample.params["axes"])
    assert same_bits(found, expected), f"{primitive.name} is no reduction by that"
    return 1


def law_order(primitive: Primitive, sample: Sample) -> int:
    """The axes of the outputs lie as it is said, of arguments in C and in Fortran order."""
    found = 0
    for order in "CF" if primitive.order else "":
        args = [np.asarray(a, order=order) if type(a) is np.ndarray else a for a in sample.args]
        equation = equation_of(primitive, Sample(sample.name, tuple(args), sample.params))
        said = follow(equation, [memory_layout(np.asarray(a)) for a in args])
        for output, how in zip(run(primitive, args, sample.params), said, strict=True):
            if type(output) is not np.ndarray or how.strides is None or one_order(output.shape):
                continue
            strides = memory_layout(output).strides
            exact = primitive.view and np.shares_memory(output, args[0])
            same = strides == how.strides if exact else True
            same = same and axes_of(output.shape, strides) == axes_of(output.shape, how.strides)
            assert same, f"{primitive.name} gives {strides}, not {how.strides}"
            found = 1
    return found


def law_fresh(primitive: Primitive, sample: Sample) -> int:
    """An output declared fresh shares no memory with an argument."""
    outputs_of = run(primitive, sample.args, sample.params) if primitive.fresh else ()
    for output, x in itertools.product(outputs_of, sample.args):
        assert not np.shares_memory(output, x), f"{primitive.name} is a view"
    return int(primitive.fresh)


def moved_by(sections: list, args: list, axis: int | None, shape: tuple[int, ...]) -> np.ndarray:
    """What sections say of the output for arguments that hold, at each element, its index along an
    axis plus one, or ones.
    """
    out = np.zeros(shape, int)
    for box, operand, place, adds in sections:
        k = np.indices(tuple(map(len, box)))
        at = place[axis] if operand >= 0 and axis is not None and axis < len(place) else None
        values = np.ones(k.shape[1:], int)
        if operand >= 0 and not np.any(args[operand]):
            values *= 0
        elif at is not None:
            values += at.offset + (at.step * k[at.loop] if at.loop >= 0 else 0)
        out[np.ix_(*box)] = values + adds * out[np.ix_(*box)]
    return out


def law_sections(primitive: Primitive, sample: Sample) -> int:
    """The sections place the elements of each argument as `eval` does."""
    equation = equation_of(primitive, sample)
    sections = sections_of(equation)
    if sections is None:
        return 0
    (output,) = equation.outputs
    shapes = [np.shape(a) for a in sample.args]
    for box, operand, place, _ in sections:
        assert len(box) == output.type.ndim
        assert len(place) == (0 if operand < 0 else len(shapes[operand]))
    for operand, shape in enumerate(shapes or [()]):
        for axis in (None, *range(len(shape))):
            mine = [part.place for part in sections if part.operand == operand]
            if axis is not None and None in [place[axis] for place in mine]:
                continue
            args = [np.zeros(s, int) for s in shapes]
            if shapes:
                args[operand] = np.ones(shape, int) if axis is None else np.indices(shape)[axis] + 1
            (expected,) = run(primitive, args, sample.params)
            found = moved_by(sections, args, axis, output.type.shape)
            np.testing.assert_array_equal(found, expected, err_msg=primitive.name)
    return 1


def in_single(value):
    """The value in single precision; None if it has no such form."""
    dtype = typeof(value).dtype
    if dtype.kind in "cO" or isinstance(value, Primitive):
        return None
    if type(value) is float:
        return float(np.float32(value))
    return value.astype(np.float32) if dtype.kind == "f" else value


def in_double(value):
    return value.astype(np.float64) if typeof(value).dtype.kind == "f" else value


OF_A_PRECISION = {"nextafter", "spacing", "external"}
"""Primitives that ask for the floats of a dtype, and one that calls the user's function."""


def law_rounding(primitive: Primitive, sample: Sample) -> int:
    """The result in single precision is as near to that of the same numbers in double precision as
    the primitive states: equal bits once rounded, so many units in the last place, so many of the
    largest sum of the terms, or no further than results for operands that rounding moves.
    """
    stated = rounding_of(primitive)
    if primitive.name in OF_A_PRECISION or stated == FOREIGN:
        return 0
    args = list(map(in_single, sample.args))
    fixed = [v for v in sample.params.values() if isinstance(v, np.dtype | type | Graph)]
    floats = [a for a in args if isinstance(a, np.ndarray | np.floating) and a.dtype == np.float32]
    if not floats or fixed or any(a is None for a in args):
        return 0
    wide = [x if type(x) is float else in_double(x) for x in args]
    found = run(primitive, args, sample.params)
    exact = run(primitive, wide, sample.params)
    if any(np.asarray(x).dtype != np.float32 for x in found) and stated != EXACT:
        return 0
    allowed = margins(primitive, stated, wide, sample.params, exact)
    for x, y, margin in zip(found, exact, allowed, strict=True):
        with np.errstate(all="ignore"):
            rounded = np.asarray(y).astype(np.asarray(x).dtype)
            if stated == EXACT:
                assert same_bits(x, rounded), f"{primitive.name} rounds"
                continue
            finite = np.isfinite(x) & np.isfinite(rounded) & np.isfinite(margin)
            wrong = np.abs(np.asarray(x, np.float64) - y)[finite]
        assert np.array_equal(np.isnan(x), np.isnan(rounded)), f"{primitive.name} has other NaN"
        worst = np.max(wrong / np.broadcast_to(margin, np.shape(y))[finite], initial=0.0)
        assert worst <= 1.0, f"{primitive.name} is further off than {stated}: {worst}"
    return 1


def margins(primitive: Primitive, stated, args, params, exact) -> list:
    """How far results in single precision may lie from exact ones."""
    unit = float(np.finfo(np.float32).eps)
    with np.errstate(all="ignore"):
        units = [np.spacing(np.abs(np.asarray(y)).astype(np.float32)).astype(float) for y in exact]
    if not isinstance(stated, str):  # 0.001: of the results in double precision
        return [(stated + 0.001) * u for u in units]
    count = max(np.size(a) for a in args)
    if stated == FACTORS:
        return [(count + 1) * unit * np.abs(y) + u for y, u in zip(exact, units, strict=True)]
    if stated == TERMS:
        sizes = run(primitive, [np.abs(a) if np.ndim(a) else a for a in args], params)
        return [(count + 1) * unit * np.abs(z) + u for z, u in zip(sizes, units, strict=True)]
    random, spread = np.random.default_rng(0), [np.zeros(np.shape(y)) for y in exact]
    for _ in range(8):
        near = [
            a * (1 + 16 * unit * random.uniform(-1, 1, np.shape(a)))
            if typeof(a).dtype.kind == "f" else a
            for a in args
        ]  # fmt: skip
        for n, y in enumerate(run(primitive, near, params)):
            with np.errstate(all="ignore"):
                spread[n] = np.maximum(spread[n], np.abs(y - exact[n]))
    return [4 * np.max(z, initial=0.0) + 64 * u for z, u in zip(spread, units, strict=True)]


MADE = ("bitcast", "complex_of", "to_discrete")
"""Conversions: their elements differ from those of their inputs."""


def law_masks(primitive: Primitive, sample: Sample) -> int:
    """A pullback masks no cotangent, unless it says so, or that there are kinks."""
    moving = [i for i, a in enumerate(sample.args) if np.asarray(a).dtype.kind in "fc"]
    masks, equation = primitive.masks, equation_of(primitive, sample)
    if primitive.kink is not None or not moving or primitive.effect:
        return 0
    if masks(equation) if callable(masks) else masks:
        return 0

    def f(*xs):
        args = list(sample.args)
        for i, x in zip(moving, xs, strict=True):
            args[i] = x
        return outputs(primitive, primitive(*args, **sample.params))

    made, begin = [], Masked.__init__

    def noted(self, *args):
        made.append(args)
        begin(self, *args)

    with np.errstate(all="ignore"), mock.patch.object(Masked, "__init__", noted):
        try:
            values, pullback = linearized(f, [sample.args[i] for i in moving], lambda: "a law")
            pullback(
                [np.ones_like(v) if np.asarray(v).dtype.kind in "fc" else None for v in values]
            )
        except MissingRuleError:
            return 0
    assert not made, f"{primitive.name} masks cotangents"
    return 1


LAWS: dict[str, Callable[[Primitive, Sample], int]] = {
    "pure": law_pure,
    "view": law_view,
    "commutative": law_commutative,
    "cost": law_cost,
    "kink": law_kink,
    "scalar": law_scalar,
    "inline": law_inline,
    "reduces": law_reduces,
    "order": law_order,
    "fresh": law_fresh,
    "sections": law_sections,
    "rounding": law_rounding,
    "masks": law_masks,
}
HOLDING = {
    "view": 10,
    "commutative": 11,
    "cost": 150,
    "kink": 12,
    "pure": 200,
    "scalar": 45,
    "inline": 0,
    "order": 60,
    "fresh": 13,
    "sections": 15,
    "rounding": 100,
    "masks": 150,
}
"""The fewest primitives that each law has to be asked of."""


@pytest.mark.parametrize("law", LAWS)
def test_facts_hold_on_the_samples(law):
    asked = set()
    for name in NAMES:
        for sample in samples_of(OURS[name]):
            if LAWS[law](OURS[name], sample):
                asked.add(name)
    assert len(asked) >= HOLDING.get(law, 0), len(asked)


def test_special_values_may_change_places_too():
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.5, 5e-324])
    x, y = np.repeat(special, special.size), np.tile(special, special.size)
    bits = np.arange(-4, 60)
    for name in NAMES:
        if OURS[name].commutative:
            whole = name.startswith("bitwise") or name in ("gcd", "lcm")
            law_commutative(OURS[name], Sample(name, (bits, bits[::-1]) if whole else (x, y), {}))


CLASSES = (EXACT, TERMS, FACTORS, OPERANDS, SPACES)


def test_every_primitive_has_a_class_of_rounding():
    """A number of units in the last place, or one of the classes; and all are asked for."""
    found = {name: rounding_of(OURS[name]) for name in NAMES}
    wrong = [n for n, r in found.items() if isinstance(r, str) and r not in CLASSES]
    assert not wrong + [n for n, r in found.items() if not isinstance(r, str) and r < 0]
    assert {EXACT, ARITHMETIC, FUNCTION, FOREIGN, *CLASSES} <= set(found.values())
    asked = {
        rounding_of(OURS[name])
        for name in NAMES
        for sample in samples_of(OURS[name])
        if law_rounding(OURS[name], sample)
    }
    assert {EXACT, ARITHMETIC, FUNCTION, TERMS, FACTORS, OPERANDS} <= asked


# --- wrong facts --------------------------------------------------------------------------

X, Y = np.array([1.0, 2.0, 4.0]), np.array([3.0, 0.5, -1.0])
CALLS = itertools.count()
WRONG: dict[str, tuple[Primitive, tuple]] = {
    "pure": (elementwise("counted", lambda x: x + next(CALLS), partials=[1]), (X,)),
    "view": (
        linear("copied", eval=np.copy, type=lambda x: x, transpose=lambda ct, x: ct, view=True),
        (X,),
    ),
    "commutative": (
        elementwise("minus", lambda x, y: x - y, partials=[1, -1], commutative=True), (X, Y)
    ),
    "kink": (
        elementwise(
            "bent", lambda x: abs(x), partials=[lambda y, x: np.sign(x)], kink=lambda x: x == 1.0
        ),
        (X,),
    ),
    "scalar": (elementwise("halved", lambda x: 0.5 * x, partials=[0.5], scalar=math.exp), (X,)),
    "inline": (
        elementwise("grown", lambda x: x + next(CALLS), partials=[1], inline=True), (X,)
    ),
    "reduces": (
        general(
            "summed", eval=lambda x, axes: np.sum(x), type=lambda x, axes: x, reduces=np.maximum
        ),
        (X,),
    ),
    "sections": (
        general(
            "shifted", eval=lambda x: np.roll(x, 1), type=lambda x: x,
            sections=lambda equation: [whole(equation, [Along(0)])],
        ),
        (X,),
    ),
    "fresh": (general("kept_as_is", eval=lambda x: x, type=lambda x: x, fresh=True), (X,)),
    "order": (
        general("turned", eval=np.asfortranarray, type=lambda x: x, order="rows"),
        (np.ones((2, 3)),),
    ),
    "rounding": (
        elementwise("tripled_exactly", lambda x: x * np.pi, partials=[np.pi], rounding=EXACT),
        (X + 0.1,),
    ),
    "masks": (
        elementwise("clamped", lambda x: np.maximum(x, 0.0), partials=[lambda y, x: x > 0]), (Y,)
    ),
    "cost": (elementwise("thrice", lambda x: 3.0 * x, partials=[3], cost=0), (X + 0.1,)),
}  # fmt: skip


PARAMS = {"reduces": {"axes": (0,)}}


@pytest.mark.parametrize("law", LAWS)
def test_a_wrong_fact_is_noticed(law):
    primitive, args = WRONG[law]
    with pytest.raises(AssertionError, match=primitive.name):
        LAWS[law](primitive, Sample(primitive.name, args, PARAMS.get(law, {})))


def test_a_fact_that_there_is_not_is_an_error():
    with pytest.raises(TypeError, match="'odd' declares colour; facts are cost,"):
        elementwise("odd", np.sin, partials=[np.cos], colour="red")
