"""fungrad.nn: values against SciPy and formulas, derivatives, kinks, and extreme arguments."""

from __future__ import annotations

import math
import warnings

import mpmath
import numpy as np
import pytest
import scipy.signal
import scipy.special
from surface import agrees, values

import fungrad as fg
from fungrad import nn
from fungrad.errors import ArgumentError, ShapeError
from fungrad.nn import initializers
from fungrad.testing import check_grads

V, M, Q = values((6,)), values((3, 4)), values((2, 3, 4))


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# --- activations ----------------------------------------------------------------------------------

FORMULAS = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.exp(x) - 1),
    "celu": lambda x: np.maximum(x, 0) + np.minimum(np.exp(x) - 1, 0),
    "selu": lambda x: np.where(x > 0, 1.0507009873554805 * x, 1.7580993408473766 * (np.exp(x) - 1)),
    "sigmoid": scipy.special.expit,
    "silu": lambda x: x * scipy.special.expit(x),
    "swish": lambda x: x * scipy.special.expit(x),
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "log_sigmoid": scipy.special.log_expit,
    "soft_sign": lambda x: x / (1 + np.abs(x)),
    "mish": lambda x: x * np.tanh(np.log(1 + np.exp(x))),
    "gelu": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "squareplus": lambda x: (x + np.sqrt(x**2 + 4)) / 2,
    "tanh": np.tanh,
    "sparse_plus": lambda x: np.where(x > 1, x, np.maximum(x + 1, 0) ** 2 / 4),
    "sparse_sigmoid": lambda x: np.clip(x + 1, 0, 2) / 2,
    "gelu_exact": lambda x: x * scipy.special.ndtr(x),
    "glu": lambda x: x[..., :2] * scipy.special.expit(x[..., 2:]),
}


def function(name):
    if name == "gelu_exact":
        return lambda x: nn.gelu(x, approximate=False)
    return getattr(nn, name)


@pytest.mark.parametrize("name", FORMULAS)
def test_activation(name):
    f = function(name)
    x = 4 * M
    np.testing.assert_allclose(f(x), FORMULAS[name](x), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(fg.jit(f)(x), f(x), rtol=1e-14)
    agrees(f, M)
    single = x.astype(np.float32)
    assert f(single).dtype == np.float32 == fg.grad(lambda x: np.sum(f(x)))(single).dtype
    np.testing.assert_allclose(f(single), f(x), rtol=1e-4, atol=1e-6)
    if name not in ("glu", "identity"):
        assert np.ndim(f(1.5)) == 0 and f([1, 2]).shape == (2,) and f(np.zeros((0, 2))).size == 0


@pytest.mark.parametrize("name", sorted(set(FORMULAS) - {"glu"}))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations_at_large_arguments(name, dtype):
    f = function(name)
    large = 1e4 if name == "hard_silu" else np.finfo(dtype).max / 16
    x = np.array([-large, -1e4, -100.0, -30.0, 0.0, 30.0, 100.0, 1e4, large], dtype)
    with np.errstate(under="ignore"):
        assert np.isfinite(f(x)).all()
        first = fg.elementwise_grad(f)(x)
        assert np.isfinite(first).all()
        assert np.isfinite(fg.elementwise_grad(fg.elementwise_grad(f))(x)).all()
    if name not in ("identity", "sigmoid", "hard_sigmoid", "hard_tanh", "soft_sign", "relu6",
                    "tanh", "sparse_sigmoid"):  # fmt: skip
        assert first[-1] == pytest.approx(1.0, rel=0.06) or name == "log_sigmoid"
    with np.errstate(invalid="ignore"):
        assert np.isnan(f(np.array([np.nan], dtype))).all()


@pytest.mark.parametrize(
    ("name", "at", "slope"),
    [
        ("relu", 0.0, 0.0), ("relu6", 0.0, 0.0), ("relu6", 6.0, 0.0), ("leaky_relu", 0.0, 1.0),
        ("hard_tanh", 1.0, 0.0), ("hard_tanh", -1.0, 0.0), ("sparse_sigmoid", 1.0, 0.0),
        ("sparse_sigmoid", -1.0, 0.0), ("sparse_plus", 1.0, 1.0), ("elu", 0.0, 1.0),
        ("celu", 0.0, 1.0),
        ("soft_sign", 0.0, 1.0), ("sigmoid", 0.0, 0.25), ("softplus", 0.0, 0.5),
        ("silu", 0.0, 0.5), ("gelu", 0.0, 0.5), ("gelu_exact", 0.0, 0.5), ("squareplus", 0.0, 0.5),
    ],
)  # fmt: skip
def test_slopes_at_kinks_and_seams(name, at, slope):
    f = function(name)
    assert fg.grad(f)(at) == pytest.approx(slope, abs=1e-15)
    assert fg.jvp(f, (at,), (1.0,))[1] == pytest.approx(slope, abs=1e-15)
    if name not in ("relu", "relu6", "leaky_relu", "hard_tanh", "elu", "celu", "soft_sign",
                    "sparse_plus", "sparse_sigmoid"):  # fmt: skip
        check_grads(f, [at])


def test_tails_are_precise():
    x = np.array([-700.0, -40.0, 40.0])
    np.testing.assert_allclose(nn.sigmoid(x), scipy.special.expit(x), rtol=1e-14)
    slope = scipy.special.expit(x) * scipy.special.expit(-x)
    np.testing.assert_allclose(fg.elementwise_grad(nn.sigmoid)(x), slope, rtol=1e-13)
    np.testing.assert_allclose(nn.squareplus(-1e8), 1e-8, rtol=1e-14)
    tail = nn.gelu(-30.0, approximate=False)
    np.testing.assert_allclose(tail, -30 * scipy.special.ndtr(-30.0), rtol=1e-12)


def test_log1mexp():
    x = np.array([1e-300, 1e-20, 1e-8, 0.1, 0.5, math.log(2.0), 0.7, 2.0, 40.0, 700.0])
    with mpmath.workdps(60):
        values = [float(mpmath.log(1 - mpmath.exp(-mpmath.mpf(v)))) for v in x[1:9]]
        slopes = [float(1 / mpmath.expm1(mpmath.mpf(v))) for v in x]
    for dtype, rtol in ((np.float64, 1e-14), (np.float32, 1e-5)):
        given = x[1:9].astype(dtype)
        np.testing.assert_allclose(nn.log1mexp(given), values, rtol=rtol)
        assert nn.log1mexp(given).dtype == dtype
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(fg.elementwise_grad(nn.log1mexp)(x), slopes, rtol=1e-13)
        np.testing.assert_allclose(fg.jit(nn.log1mexp)(x), nn.log1mexp(x), rtol=1e-14)
    agrees(nn.log1mexp, np.array([0.3, 0.6, 0.9, 3.0]))
    with np.errstate(all="ignore"):
        assert nn.log1mexp(0.0) == -np.inf and np.isnan(nn.log1mexp(-1.0))


def test_activations_with_parameters():
    agrees(lambda x, a: nn.elu(x, a), V, np.array(0.7))
    agrees(lambda x, a: nn.celu(x, a), V, np.array(0.7))
    agrees(lambda x, a: nn.leaky_relu(x, a), V, np.array(0.3))
    agrees(lambda x, b: nn.squareplus(x, b), V, np.array(2.0))
    agrees(lambda x: nn.glu(x, axis=0), values((4, 3)))
    with pytest.raises(ShapeError, match="odd length 3"):
        nn.glu(np.ones(3))
    assert nn.relu(np.array([-1, 2])).dtype == np.int64


# --- softmax and its kin --------------------------------------------------------------------------

WHERE = np.array([[True, True, False, True], [True, False, True, True], [False] * 4])


def test_softmax_and_log_softmax():
    for f, g in (
        (nn.softmax, scipy.special.softmax),
        (nn.log_softmax, scipy.special.log_softmax),
    ):
        for axis in (-1, 0, (0, 1), None):
            np.testing.assert_allclose(f(M, axis), g(M, axis), rtol=1e-12)
            if axis is not None:
                agrees(lambda x, f=f, axis=axis: f(x, axis), M)
        np.testing.assert_allclose(fg.jit(f)(M), f(M), rtol=1e-14)
        single = M.astype(np.float32)
        assert f(single).dtype == np.float32 == fg.vjp(f, single)[1](single)[0].dtype
        check_grads(lambda x, f=f: np.where(WHERE, f(x, where=WHERE), 0.0), [M])


def test_softmax_where():
    found = nn.softmax(M, where=WHERE)
    expected = np.where(WHERE, np.exp(M), 0)
    expected[:2] /= expected[:2].sum(1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    agrees(lambda x: nn.softmax(x, where=WHERE), M)
    logs = nn.log_softmax(M, where=WHERE)
    assert (logs[~WHERE] == -np.inf).all()
    np.testing.assert_allclose(np.exp(logs), expected, rtol=1e-14)


HARD = np.array(
    [[1e300, 1e300, 0.0], [-np.inf, 1.0, 2.0], [-np.inf] * 3, [np.inf, np.inf, 0.0], [1e9] * 3]
)


def test_softmax_of_huge_equal_and_infinite_logits():
    half, third, e = 0.5, 1 / 3, scipy.special.expit(1.0)
    expected = [[half, half, 0], [0, 1 - e, e], [third] * 3, [half, half, 0], [third] * 3]
    np.testing.assert_allclose(nn.softmax(HARD), expected, rtol=1e-14)
    logs = nn.log_softmax(HARD)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(logs[1:], np.log(expected)[1:], rtol=1e-14)
    np.testing.assert_allclose(logs[0], [-math.log(2), -math.log(2), -1e300])
    weights = np.array([1.0, 2.0, 4.0])
    for f in (nn.softmax, lambda x: nn.logsumexp(x, -1), nn.log_softmax):
        for run in (f, fg.jit(f)):
            _, pullback = fg.vjp(run, HARD)
            ct = np.ones(5) if f(HARD).ndim == 1 else np.tile(weights, (5, 1))
            assert np.isfinite(pullback(ct)[0]).all()
            assert not np.isnan(fg.jvp(run, (HARD,), (np.ones((5, 3)),))[1]).any()
    _, pullback = fg.vjp(lambda x: nn.logsumexp(x, -1), HARD)
    expected[2] = [0] * 3  # -inf stays -inf
    np.testing.assert_allclose(pullback(np.ones(5))[0], expected, rtol=1e-14)
    assert nn.logsumexp(np.full(2, -np.inf), b=-1.0) == -np.inf


def test_logsumexp():
    for axis in (None, 0, -1, (0, 1)):
        expected = scipy.special.logsumexp(M, axis)
        np.testing.assert_allclose(nn.logsumexp(M, axis), expected, rtol=1e-13)
        agrees(lambda x, axis=axis: nn.logsumexp(x, axis, keepdims=True), M)
    b = np.array([1.0, 0.0, 2.0, 0.5])
    np.testing.assert_allclose(nn.logsumexp(M, 1, b), scipy.special.logsumexp(M, 1, b), rtol=1e-13)
    agrees(lambda x, b: nn.logsumexp(x, 1, b), M, np.abs(values((4,))))
    found, sign = nn.logsumexp(M, 1, -b, return_sign=True)
    assert (sign == -1).all()
    np.testing.assert_allclose(found, nn.logsumexp(M, 1, b))
    check_grads(lambda b: nn.logsumexp(M, 1, b), [b])  # also by a weight of 0
    assert np.isnan(nn.logsumexp(V, b=-1.0))
    np.testing.assert_array_equal(nn.logsumexp(HARD, 1)[2:4], [-np.inf, np.inf])
    assert nn.logsumexp(M, 1, where=WHERE)[2] == -np.inf
    np.testing.assert_allclose(nn.logsumexp(M[0], where=WHERE[0]), nn.logsumexp(M[0, [0, 1, 3]]))
    agrees(lambda x: nn.logsumexp(x, 1, where=WHERE[:2]), M[:2])
    np.testing.assert_allclose(nn.logmeanexp(M, 1), np.log(np.mean(np.exp(M), 1)))
    assert nn.logsumexp(M.astype(np.float32)).dtype == np.float32
    assert nn.logsumexp(np.zeros(0)) == -np.inf


def test_standardize_and_one_hot():
    agrees(nn.standardize, M)
    found = nn.standardize(M, axis=(0, 1))
    np.testing.assert_allclose([found.mean(), found.var()], [0, 1], atol=1e-4)
    agrees(lambda x: nn.standardize(x, where=WHERE[:2]), M[:2])
    assert np.isfinite(fg.grad(lambda x: np.sum(nn.standardize(x)[0]))(np.ones((2, 3)))).all()
    labels = np.array([[0, 2], [1, 7]])
    expected = (labels[..., None] == np.arange(3)).astype(float)
    np.testing.assert_array_equal(nn.one_hot(labels, 3), expected)
    np.testing.assert_array_equal(nn.one_hot(labels, 3, axis=0), np.moveaxis(expected, -1, 0))
    assert fg.jit(lambda i: nn.one_hot(i, 3, dtype=np.float32))(labels).dtype == np.float32
    agrees(lambda i: nn.one_hot(i, 3), labels)


def test_cross_entropies():
    labels = np.array([1, 0, 3])
    expected = -scipy.special.log_softmax(M, 1)[np.arange(3), labels]
    found = nn.softmax_cross_entropy_with_integer_labels(M, labels)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    np.testing.assert_allclose(
        nn.softmax_cross_entropy(M, nn.one_hot(labels, 4)), expected, rtol=1e-13
    )
    agrees(nn.softmax_cross_entropy_with_integer_labels, M, labels, batch=False)
    f = fg.vmap(nn.softmax_cross_entropy_with_integer_labels)
    np.testing.assert_allclose(f(M, labels), found, rtol=1e-14)
    agrees(nn.softmax_cross_entropy, M, nn.softmax(values((3, 4), seed=3)))
    columns = nn.softmax_cross_entropy_with_integer_labels(M.T, labels, axis=0)
    np.testing.assert_allclose(columns, expected, rtol=1e-13)
    masked = np.array([1e9, -np.inf, 0.0])
    target = np.array([1.0, 0.0, 0.0])
    loss, slope = fg.value_and_grad(nn.softmax_cross_entropy)(masked, target)
    assert loss == 0 and slope.tolist() == [0, 0, 0]
    slope = fg.grad(lambda x: np.sum(nn.softmax_cross_entropy_with_integer_labels(x, labels)))(M)
    np.testing.assert_allclose(slope, nn.softmax(M) - nn.one_hot(labels, 4), atol=1e-15)
    p = np.array([0.0, 1.0, 0.3, 1.0])
    x = np.array([2.0, -3.0, 0.5, 500.0])
    found = nn.sigmoid_binary_cross_entropy(x, p)
    q = scipy.special.log_expit
    np.testing.assert_allclose(found, -(p * q(x) + (1 - p) * q(-x)), rtol=1e-13)
    agrees(nn.sigmoid_binary_cross_entropy, x[:3], p[:3])
    with pytest.raises(ArgumentError, match="not integers"):
        nn.softmax_cross_entropy_with_integer_labels(M, np.ones(3))
    with pytest.raises(ShapeError, match="Labels of shape"):
        nn.softmax_cross_entropy_with_integer_labels(M, np.ones(4, int))


# --- layers ---------------------------------------------------------------------------------------


def test_conv():
    x, w, b = values((2, 3, 5, 4)), values((2, 3, 3, 2), seed=1), values((2,))
    expected = np.stack(
        [
            [sum(scipy.signal.correlate2d(a[c], k[c], "valid") for c in range(3)) for k in w]
            for a in x
        ]
    )
    found = nn.conv(x, w, b, strides=(2, 1))
    np.testing.assert_allclose(found, expected[:, :, ::2] + b[:, None, None], rtol=1e-12)
    agrees(lambda x, w, b: nn.conv(x, w, b, padding="SAME", dilation=2), x, w, b)
    agrees(lambda x, w: nn.conv(x, w, groups=3), values((1, 3, 4)), values((3, 1, 2)))


def test_pooling():
    x = values((2, 3, 6, 5))
    expected = x[:, :, :, :4].reshape(2, 3, 3, 2, 2, 2)
    np.testing.assert_array_equal(nn.max_pool(x, (2, 2)), expected.max((3, 5)))
    np.testing.assert_array_equal(nn.min_pool(x, (2, 2)), expected.min((3, 5)))
    np.testing.assert_allclose(nn.avg_pool(x, (2, 2)), expected.mean((3, 5)), rtol=1e-14)
    for f in (nn.max_pool, nn.min_pool, nn.avg_pool):
        agrees(lambda x, f=f: f(x, (3, 2), (2, 1), "SAME"), x)
        assert f(x.astype(np.float32), 2).dtype == np.float32
    means = nn.avg_pool(np.ones((3, 3)), (2, 2), (1, 1), "SAME", count_include_pad=False)
    np.testing.assert_array_equal(means, np.ones((3, 3)))
    assert nn.avg_pool(np.ones(3), 2, 1, "SAME")[-1] == 0.5
    assert fg.grad(lambda x: nn.max_pool(x, 2)[0])(np.ones(2)).tolist() == [0.5, 0.5]
    assert nn.max_pool(np.arange(4), 2, padding=[(1, 1)]).tolist() == [0, 2, 3]
    with pytest.raises(ShapeError, match="Windows"):
        nn.max_pool(np.ones(3), (2, 2))


def plain_attention(q, k, v, bias=0.0, mask=True):
    k, v = (np.repeat(a, q.shape[2] // a.shape[2], axis=2) for a in (k, v))
    logits = np.einsum("btnh,bsnh->bnts", q, k) / math.sqrt(q.shape[-1]) + bias
    with np.errstate(divide="ignore"):
        logits = logits + np.log(mask)
    return np.einsum("bnts,bsnh->btnh", scipy.special.softmax(logits, -1), v)


def test_attention():
    q, k, v = values((2, 3, 4, 5)), values((2, 6, 2, 5), seed=1), values((2, 6, 2, 3), seed=2)
    f = nn.dot_product_attention
    np.testing.assert_allclose(f(q, k, v), plain_attention(q, k, v), rtol=1e-12)
    np.testing.assert_allclose(f(q[0], k[0], v[0]), plain_attention(q, k, v)[0], rtol=1e-12)
    bias, mask = values((1, 4, 3, 6)), np.tri(3, 6, 2, dtype=bool)
    found = f(q, k, v, bias, mask)
    np.testing.assert_allclose(found, plain_attention(q, k, v, bias, mask), rtol=1e-12)
    causal = plain_attention(q, k, v, mask=np.tri(3, 6, dtype=bool))
    np.testing.assert_allclose(f(q, k, v, is_causal=True), causal, rtol=1e-12)
    np.testing.assert_allclose(fg.jit(f)(q, k, v), f(q, k, v), rtol=1e-12)
    agrees(lambda *a: f(*a, mask=mask), 0.5 * q, 0.5 * k, v, bias)
    blind = np.zeros((3, 6), bool)
    assert not f(q, k, v, mask=blind).any()
    slope = fg.grad(lambda q: np.sum(f(q, k, v, mask=blind)))(q)
    assert not slope.any()
    assert f(*(a.astype(np.float32) for a in (q, k, v))).dtype == np.float32
    with pytest.raises(ShapeError, match="multiple of K"):
        f(q[:, :, :3], k, v)


# --- initializers ---------------------------------------------------------------------------------


def rng(seed=0):
    return np.random.default_rng(seed)


def test_initializers():
    shape = (300, 200)
    for name, variance, flat in (
        ("glorot_uniform", 2 / 500, True), ("glorot_normal", 2 / 500, False),
        ("he_uniform", 2 / 300, True), ("he_normal", 2 / 300, False),
        ("lecun_uniform", 1 / 300, True), ("lecun_normal", 1 / 300, False),
    ):  # fmt: skip
        w = getattr(initializers, name)()(rng(), shape)
        assert w.var() == pytest.approx(variance, rel=0.03) and abs(w.mean()) < 1e-3
        bound = math.sqrt(3 * variance) if flat else 2 * math.sqrt(variance) / 0.8796
        assert np.abs(w).max() == pytest.approx(bound, rel=0.01)
        np.testing.assert_array_equal(w, getattr(initializers, name)()(rng(), shape))
    geometric = initializers.variance_scaling(1.0, "fan_geo_avg", "normal")(rng(), shape)
    assert geometric.var() == pytest.approx(1 / math.sqrt(300 * 200), rel=0.03)
    kernel = initializers.he_normal(in_axis=1, out_axis=0)(rng(), (64, 32, 3, 3), np.float32)
    assert kernel.dtype == np.float32
    assert kernel.var() == pytest.approx(2 / (32 * 9), rel=0.05)
    assert initializers.normal(2.0)(rng(), shape).std() == pytest.approx(2.0, rel=0.02)
    assert initializers.uniform(2.0)(rng(), shape).mean() == pytest.approx(1.0, rel=0.02)
    assert np.abs(initializers.truncated_normal(1.0)(rng(), shape)).max() <= 2
    assert initializers.constant(2.0)(rng(), (2,)).tolist() == [2.0, 2.0]
    assert initializers.ones(rng(), (2,)).sum() == 2 and not initializers.zeros(rng(), (2,)).any()
    same = rng()
    assert not np.array_equal(initializers.normal()(same, (3,)), initializers.normal()(same, (3,)))


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6), (2, 3, 4)])
def test_orthogonal(shape):
    w = initializers.orthogonal(2.0)(rng(), shape).reshape(-1, shape[-1])
    product = w.T @ w if w.shape[0] >= w.shape[1] else w @ w.T
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


def test_delta_orthogonal():
    x = rng().standard_normal((1, 3, 7, 7))
    kernel = initializers.delta_orthogonal(2.0)(rng(), (3, 5, 3, 4), np.float32)
    assert kernel.dtype == np.float32 and np.count_nonzero(kernel) == 12
    y = nn.conv(x, np.transpose(kernel, (3, 2, 0, 1)), padding="SAME")
    np.testing.assert_allclose(np.sum(y**2, 1), 4 * np.sum(x**2, 1), rtol=1e-5)
    for shape in ((3, 4), (3, 4, 2), (1, 1, 1, 1, 2, 2)):
        with pytest.raises(ArgumentError, match="delta_orthogonal needs"):
            initializers.delta_orthogonal()(rng(), shape)
    key = fg.random.key(0)
    jitted = fg.jit(lambda key: initializers.delta_orthogonal()(key, (3, 2, 2)))
    np.testing.assert_allclose(jitted(key), initializers.delta_orthogonal()(key, (3, 2, 2)))


@pytest.mark.parametrize("name", ["uniform", "normal", "truncated_normal", "he_normal",
                                  "glorot_uniform", "orthogonal"])  # fmt: skip
def test_initializers_take_keys(name):
    init = getattr(initializers, name)()
    keys = fg.random.split(fg.random.key(0), 3)
    w = init(keys[0], (60, 50), np.float32)
    assert w.dtype == np.float32 and w.shape == (60, 50)
    assert w.std() == pytest.approx(init(rng(), (60, 50)).std(), rel=0.1)
    np.testing.assert_array_equal(init(keys[0], (60, 50), np.float32), w)
    batch = fg.jit(fg.vmap(lambda key: init(key, (4, 3))))(keys)
    np.testing.assert_array_equal(batch, np.stack([init(key, (4, 3)) for key in keys]))


def test_initializers_say_what_is_wrong():
    with pytest.raises(ArgumentError, match=r"takes a key.*numpy.random.Generator.*not int"):
        initializers.normal()(0, (2,))
    with pytest.raises(ArgumentError, match="two axes"):
        initializers.he_normal()(rng(), (2,))
    with pytest.raises(ArgumentError, match="mode"):
        initializers.variance_scaling(1.0, "fan", "normal")
    with pytest.raises(ArgumentError, match="distribution"):
        initializers.variance_scaling(1.0, "fan_in", "cauchy")
    with pytest.raises(ArgumentError, match="improbable values"):
        initializers.truncated_normal(lower=8.0, upper=9.0)


# --- together -------------------------------------------------------------------------------------


def test_a_network_learns():
    random = rng(3)
    x = random.standard_normal((64, 1, 8, 8))
    labels = (x[:, 0, 2:6, 2:6].sum((1, 2)) > 0).astype(int)
    he = initializers.he_normal(in_axis=1, out_axis=0)
    params = {"k": he(random, (4, 1, 3, 3)), "w": initializers.lecun_normal()(random, (64, 2))}

    def loss(p):
        h = nn.max_pool(nn.relu(nn.conv(x, p["k"], padding="SAME")), (2, 2))
        logits = np.reshape(h, (64, -1)) @ p["w"]
        return np.mean(nn.softmax_cross_entropy_with_integer_labels(logits, labels))

    step = fg.jit(fg.value_and_grad(loss))
    first = loss(params)
    for _ in range(60):
        value, slopes = step(params)
        params = {name: params[name] - 0.3 * slopes[name] for name in params}
    assert value < 0.3 * first
    check_grads(loss, [params], order=1, modes="rev", eps=1e-7, atol=1e-4, rtol=1e-4)
