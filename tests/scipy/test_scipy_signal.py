"""fungrad.scipy.signal: numbers and dtypes are SciPy's, eager and staged; derivatives."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scipy.signal

import fungrad as fg
from fungrad.errors import UnsupportedArgumentError
from fungrad.scipy import signal
from fungrad.scipy.signal.convolution import next_fast_len
from fungrad.testing import check_grads

DTYPES = ("float64", "float32", "complex128")


def draw(shape, dtype="float64", seed=0):
    random = np.random.default_rng((seed, *np.atleast_1d(shape)))
    x = random.normal(size=shape) * 3
    if np.dtype(dtype).kind == "c":
        x = x + 1j * random.normal(size=shape)
    return x.astype(dtype)


def compare(name, *args, skip=(), **options):
    """SciPy's function against ours, on arrays and staged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = getattr(scipy.signal, name)(*args, **options)
        arrays = [i for i, arg in enumerate(args) if isinstance(arg, np.ndarray)]

        def staged(*values):
            full = list(args)
            for i, value in zip(arrays, values, strict=True):
                full[i] = value
            return getattr(signal, name)(*full, **options)

        results = (staged(*[args[i] for i in arrays]), fg.jit(staged)(*[args[i] for i in arrays]))
    for result in results:
        pairs = [(expected, result)]
        if isinstance(expected, tuple):
            assert len(result) == len(expected)
            pairs = list(zip(expected, result, strict=True))
        for position, (theirs, ours) in enumerate(pairs):
            if position in skip:
                continue
            theirs, ours = np.asarray(theirs), np.asarray(ours)
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
            single = any(getattr(x, "dtype", None) == np.float32 for x in (theirs.real, *args))
            tolerance = 2e-4 if single else 1e-9
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


# --- convolutions ---------------------------------------------------------------------------------

SHAPES = (((5,), (3,)), ((3,), (5,)), ((5, 6), (2, 3)), ((2, 3), (5, 6)), ((4, 5, 3), (2, 2, 3)))
PAIRS = (
    ("float64", "float64"), ("float32", "float32"), ("complex128", "float64"), ("int64", "int64"),
    ("complex128", "complex128"), ("int32", "float32"),
)  # fmt: skip


@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve", "oaconvolve"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions(name, mode):
    methods = ("auto", "direct", "fft") if name in ("convolve", "correlate") else (None,)
    for (i, (s1, s2)), (j, (d1, d2)) in itertools.product(enumerate(SHAPES), enumerate(PAIRS)):
        method = methods[(i + j) % len(methods)]  # each with all shapes, and with all dtypes
        options = {} if method is None else {"method": method}
        if method == "fft" and {d1, d2} == {"int32", "float32"}:
            continue  # promoted otherwise
        compare(name, draw(s1, d1), draw(s2, d2, 1), mode, **options)


@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(
    ("boundary", "value"), [("fill", 0), ("fill", 2.0), ("wrap", 0), ("symm", 0)]
)
def test_two_dimensions(name, mode, boundary, value):
    shapes = (((5, 6), (2, 3)), ((2, 3), (5, 6)), ((4, 4), (4, 3)))
    turn = (name == "correlate2d") + len(mode) % 2 + len(boundary) % 2
    for (i, (s1, s2)), (j, (d1, d2)) in itertools.product(enumerate(shapes), enumerate(PAIRS)):
        if (i + j + turn) % 2 or (value == 2.0 and "int" in d1):
            continue
        compare(name, draw(s1, d1), draw(s2, d2, 1), mode, boundary=boundary, fillvalue=value)


def test_along_some_axes_and_of_numbers():
    compare("fftconvolve", draw((3, 6)), draw((1, 4), seed=1), "same", axes=1)
    compare("fftconvolve", draw((3, 6)), draw((3, 4), seed=1), "full", axes=-1)
    assert signal.convolve(2.0, 3.0) == 6.0 and signal.fftconvolve(2.0, 3.0) == 6.0
    assert signal.correlate(2.0 + 1j, 3.0 + 1j) == (2.0 + 1j) * (3.0 - 1j)
    assert signal.convolve(np.zeros(0), np.ones(2)).shape == (0,)
    large, kernel = draw((200, 200)), draw((60, 60), seed=1)
    compare("convolve", large, kernel, "same")
    assert [next_fast_len(n) for n in (1, 2, 7, 11, 31, 97, 1025)] == [
        1, 2, 8, 12, 32, 100, 1080,
    ]  # fmt: skip


def test_derivatives_of_convolutions():
    for s1, s2 in (((5,), (3,)), ((3, 4), (2, 2))):
        x, y = draw(s1), draw(s2, seed=1)
        for mode in ("full", "same", "valid"):
            check_grads(lambda x, y, m=mode: signal.convolve(x, y, m, "direct"), [x, y])
            check_grads(lambda x, y, m=mode: signal.fftconvolve(x, y, m), [x, y], order=1)
            check_grads(lambda x, y, m=mode: signal.correlate(x, y, m), [x, y], order=1)
    z, w = draw((3, 4), "complex128"), draw((2, 2), "complex128", 1)
    check_grads(lambda z, w: signal.correlate2d(z, w, "same", "symm"), [z, w])
    value = 0.7
    check_grads(
        lambda x, v: signal.convolve2d(x, np.ones((2, 2)), "full", "fill", v), [z.real, value]
    )
    same = fg.vmap(lambda x, y: signal.convolve(x, y, "same"), in_axes=(0, None))
    rows = same(z.real, w[0].real)
    np.testing.assert_allclose(rows[1], np.convolve(z[1].real, w[0].real, "same"))
    both = fg.vmap(fg.grad(lambda x, y: signal.fftconvolve(x, y).sum() ** 2))(z.real, z.imag)
    one = fg.grad(lambda x, y: signal.convolve(x, y).sum() ** 2)(z[1].real, z[1].imag)
    np.testing.assert_allclose(both[1], one, rtol=1e-9)


def test_mistakes_in_convolutions():
    for module in (scipy.signal, signal):
        for call in (
            lambda m: m.convolve(np.ones(3), np.ones((2, 2))),
            lambda m: m.convolve(np.ones((2, 5)), np.ones((3, 3)), "valid"),
            lambda m: m.convolve(np.ones(3), np.ones(2), "some"),
            lambda m: m.convolve(np.ones(3), np.ones(2), method="some"),
            lambda m: m.correlate(np.ones(3), np.ones((2, 2))),
            lambda m: m.fftconvolve(np.ones((3, 2)), np.ones((2, 2)), axes=1),
            lambda m: m.fftconvolve(np.ones(3), np.ones(2), axes=[]),
            lambda m: m.convolve2d(np.ones(3), np.ones(2)),
            lambda m: m.correlate2d(np.ones(3), np.ones(2)),
            lambda m: m.convolve2d(np.ones((3, 3)), np.ones((2, 2)), boundary="none"),
        ):
            with pytest.raises(ValueError):
                call(module)


# --- filters --------------------------------------------------------------------------------------

FILTERS = (
    ([0.5, 0.2, 0.1], [2.0, 0.3, 0.1]), ([0.3, 0.1], [1.0, 0.3, 0.1, 0.05]),
    ([1.0, -0.4, 0.2, 0.1], [2.0]), ([1.0], [1.0, 0.5]),
)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("b, a", FILTERS)
def test_lfilter(b, a, dtype):
    real = "float32" if dtype == "float32" else "float64"
    b, a = np.array(b, real), np.array(a, real)
    x, order = draw((3, 8), dtype), max(len(a), len(b)) - 1
    for v in (x[0], x[0, :1], x[0, :2]):
        compare("lfilter", b, a, v)
        compare("lfilter", b, a, v, -1, draw(order, dtype, 1))
    compare("lfilter", b, a, x, 0)
    compare("lfilter", b, a, x, 1, draw((3, order), dtype, 1))
    compare("lfilter", b, a, x, 0, draw((order, 1), dtype, 1))
    if len(a) > 1:
        compare("lfilter_zi", b, a)
    long = draw((2, 20), dtype)
    for padtype in ("odd", "even", "constant", None):
        compare("filtfilt", b, a, long[0], padtype=padtype)
        compare("filtfilt", b, a, long.T.copy(), 0, padtype, 4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sections(dtype):
    sos = scipy.signal.butter(4, 0.3, output="sos")
    sos = sos.astype("float32") if dtype == "float32" else sos
    x = draw((3, 20), dtype)
    compare("sosfilt", sos, x[0])
    compare("sosfilt", sos, x, 0)
    compare("sosfilt", sos, x, 1, draw((2, 3, 2), dtype, 1))
    compare("sosfilt", sos, x, 0, draw((2, 2, 20), dtype, 1))
    compare("sosfilt_zi", sos)
    compare("sosfiltfilt", sos, x, 1, "even", 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        long = draw(30, dtype)
        expected = scipy.signal.sosfiltfilt(sos, long)
        found = fg.jvp(lambda v: signal.sosfiltfilt(sos, v), (long,), (long,))
    np.testing.assert_allclose(found[0], expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found[1], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("b, a", FILTERS)
def test_derivatives_of_lfilter(b, a):
    b, a, x = np.array(b), np.array(a), draw((2, 6))
    zi = draw((2, max(len(a), len(b)) - 1), seed=1)
    check_grads(lambda b, a, x: signal.lfilter(b, a, x), [b, a, x])
    check_grads(lambda b, a, x, zi: signal.lfilter(b, a, x, zi=zi), [b, a, x, zi], order=1)
    check_grads(lambda b, a, x: signal.lfilter(b, a, x, 0), [b, a, x], order=1)
    one = fg.grad(lambda a: np.sum(signal.lfilter(b, a, x[0]) ** 2))
    denominators = np.stack([a, 1.5 * a])
    np.testing.assert_allclose(fg.vmap(one)(denominators)[1], one(1.5 * a), rtol=1e-10)
    np.testing.assert_allclose(fg.jit(one)(a), one(a), rtol=1e-10)
    each = fg.vmap(lambda a, x: signal.lfilter(b, a, x))(denominators, x)
    np.testing.assert_allclose(each[1], scipy.signal.lfilter(b, 1.5 * a, x[1]), rtol=1e-10)


def test_derivatives_of_other_filters():
    b, a, x = np.array([0.5, 0.2]), np.array([1.0, -0.3]), draw(9)
    check_grads(lambda b, a, x: signal.filtfilt(b, a, x), [b, a, x], order=1)
    sos = scipy.signal.butter(3, 0.3, output="sos")
    check_grads(lambda x, zi: signal.sosfilt(sos, x, zi=zi), [x, draw((2, 2))], order=1)
    check_grads(
        lambda s, x: signal.sosfilt(np.concatenate([s[:, :3], sos[:, 3:4], s[:, 3:]], 1), x),
        [np.delete(sos, 3, 1), x], order=1,
    )  # fmt: skip
    z = draw(6, "complex128")
    check_grads(lambda a, z: signal.lfilter([1.0], a, z), [np.array([1.0, 0.3, -0.2]), z])
    empty = fg.jvp(lambda b: signal.lfilter(b, a, np.zeros(0)), (b,), (b,))
    assert empty[0].shape == empty[1].shape == (0,)


def test_mistakes_in_filters():
    x = np.ones(6)
    calls = (
        lambda f, x: f.lfilter([], [1.0], x),
        lambda f, x: f.lfilter([1.0], [[1.0]], x),
        lambda f, x: f.lfilter([1.0, 2.0], [1.0, 0.5], x, zi=np.ones(3)),
        lambda f, x: f.lfilter([1.0, 2.0], [1.0, 0.5], x, zi=np.ones((1, 1))),
        lambda f, x: f.filtfilt([1.0], [1.0, 0.5], x),
        lambda f, x: f.filtfilt([1.0], [1.0, 0.5], x, padtype="some"),
        lambda f, x: f.sosfilt(np.ones((1, 5)), x),
        lambda f, x: f.sosfilt(2 * np.ones((1, 6)), x),
        lambda f, x: f.sosfilt(np.ones((1, 6)), x, zi=np.ones(2)),
    )
    for call in calls:
        with pytest.raises(ValueError):
            call(scipy.signal, x)
        with pytest.raises(ValueError):
            fg.grad(lambda x, c=call: np.sum(c(signal, x)))(x)
    whole = np.ones(2, int)
    for module, run in ((scipy.signal, lambda f: f(whole)), (signal, lambda f: fg.jit(f)(whole))):
        with pytest.raises(NotImplementedError, match="int64"):
            run(lambda x, m=module: m.lfilter([1, 2], [1, 2], x))
    with pytest.raises(UnsupportedArgumentError, match="gust"):
        fg.jit(lambda x: signal.filtfilt([1.0], [1.0, 0.5], x, method="gust"))(x)


# --- smoothing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_signals(dtype):
    x = draw((3, 20), dtype)
    for kind in ("linear", "constant"):
        compare("detrend", x, type=kind)
        compare("detrend", x, 0, kind)
        compare("detrend", x[0], type=kind, bp=[5, 11])
    for count, length in itertools.product((5, 6, 19, 20, 21, 40, 41), (19, 20)):
        compare("resample", x[0, :length], count)
    compare("resample", x, 7, axis=1)
    if dtype != "complex128":
        compare("hilbert", x)
        compare("hilbert", x, 15, 0)
        compare("hilbert", x[0], 25)
        compare("resample", x[0, :19], 7, np.arange(19.0), window="hann")
        compare("resample", x[0], 23, window=np.hanning(20).astype(dtype))
    if dtype == "complex128":
        real = signal.savgol_filter(x.real, 5, 2)
        np.testing.assert_allclose(signal.savgol_filter(x, 5, 2).real, real)
        return
    modes = ("interp", "mirror", "nearest", "wrap", "constant")
    for mode, (length, degree) in itertools.product(modes, ((5, 2), (3, 1), (4, 2), (19, 3))):
        for order in (0, 1, 2):
            compare("savgol_filter", x[0], length, degree, order, 0.5, mode=mode, cval=1.5)
        compare("savgol_filter", x, 3, 1, axis=0, mode=mode)


def test_coefficients_of_savgol():
    for arguments in ((5, 2), (4, 2), (7, 3, 1, 0.5), (5, 2, 3), (5, 2, 0, 1.0, 1, "dot")):
        np.testing.assert_allclose(
            signal.savgol_coeffs(*arguments), scipy.signal.savgol_coeffs(*arguments), atol=1e-12
        )


def test_derivatives_of_whole_signals():
    x = draw(9)
    for f in (
        lambda x: signal.detrend(x, bp=4),
        signal.hilbert,
        lambda x: signal.resample(x, 6),
        lambda x: signal.resample(x, 14),
        lambda x: np.real(signal.resample(np.fft.fft(x), 14, domain="freq")),
        lambda x: signal.savgol_filter(x, 5, 2, 1),
        lambda x: signal.savgol_filter(x, 4, 2, mode="mirror"),
    ):
        check_grads(f, [x])
        np.testing.assert_allclose(fg.vmap(f)(np.stack([x, 2 * x]))[1], f(2 * x), atol=1e-12)
    check_grads(lambda d: signal.savgol_filter(x, 5, 2, 1, d), [0.5])


def test_mistakes_in_whole_signals():
    x = np.ones(6)
    for call in (
        lambda m: m.detrend(x, type="cubic"),
        lambda m: m.detrend(x, bp=7),
        lambda m: m.hilbert(x + 1j),
        lambda m: m.hilbert(x, 0),
        lambda m: m.resample(x, 3, window=np.ones(3)),
        lambda m: m.savgol_filter(x, 5, 5),
        lambda m: m.savgol_filter(x, 7, 2),
        lambda m: m.savgol_filter(x, 3, 2, mode="some"),
        lambda m: m.savgol_coeffs(3, 1, pos=4),
        lambda m: m.savgol_coeffs(3, 1, use="some"),
    ):
        for module in (scipy.signal, signal):
            with pytest.raises(ValueError):
                call(module)


# --- spectra --------------------------------------------------------------------------------------

CUTS = ((8, None, None), (7, 3, None), (8, 2, 16), (None, None, None))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cut", CUTS)
def test_spectra(dtype, cut):
    x = draw((2, 20), dtype)
    given = (2.0, "hann", *cut)
    for detrend, sides in ((False, True), ("constant", False), ("linear", True)):
        compare("welch", x, *given, detrend, sides)
        compare("csd", x, 2 * x[::-1], *given, detrend, sides, "spectrum")
    compare("welch", x.T.copy(), *given, axis=0, average="median")
    compare("csd", x, x[::-1].copy(), *given, average="median")
    compare("csd", x, x[:, :13].copy(), *given)
    compare("coherence", x, x[::-1].copy(), nperseg=8)
    for boundary, padded in itertools.product(("zeros", "even", "odd", "constant", None), (0, 1)):
        compare("stft", x, *given, boundary=boundary, padded=bool(padded))
    compare("stft", x, *given, return_onesided=False, scaling="psd")
    length = cut[0] or 20
    for onesided in (True, False):
        source = x.real if onesided else x
        z = scipy.signal.stft(source, 2.0, "hann", length, *cut[1:], return_onesided=onesided)[2]
        # SciPy's times are as many as the first axis is long.
        compare("istft", z, 2.0, "hann", length, *cut[1:], onesided, skip=(0,))
        compare("istft", z[0], 2.0, "hann", length, *cut[1:], onesided, False, scaling="psd")
        swapped = np.moveaxis(z, (-2, -1), (1, 0)).copy()
        compare("istft", swapped, 2.0, "hann", length, *cut[1:], onesided, True, 0, 1, skip=(0,))


@pytest.mark.parametrize("dtype", DTYPES)
def test_periodograms(dtype):
    x = draw((3, 20), dtype)
    for transform in (None, 30, 12):
        compare("periodogram", x[0], 2.0, "hann", transform)
        compare("periodogram", x, 2.0, None, transform, axis=0, scaling="spectrum")
    compare("periodogram", x[0], window=np.ones(20))


def test_derivatives_of_spectra():
    x, y = draw(12), draw(12, seed=1)
    check_grads(lambda x: signal.welch(x, nperseg=6, detrend="linear")[1], [x])
    check_grads(lambda x, y: signal.csd(x, y, nperseg=6)[1], [x, y])
    check_grads(lambda x: signal.periodogram(x)[1], [x])
    check_grads(lambda x: signal.stft(x, nperseg=6, boundary="odd")[2], [x])
    z = scipy.signal.stft(x, nperseg=6)[2]
    check_grads(lambda z: signal.istft(z, nperseg=6)[1], [z])
    check_grads(lambda x, w: signal.stft(x, window=w, nperseg=6)[2], [x, np.hamming(6)])
    loss = fg.grad(lambda x: np.sum(np.abs(signal.stft(x, nperseg=6)[2]) ** 2))
    both = fg.vmap(loss)(np.stack([x, y]))
    np.testing.assert_allclose(both[1], loss(y), atol=1e-12)


def test_mistakes_in_spectra():
    x = np.ones(20)
    for call in (
        lambda m: m.stft(x, nperseg=8, noverlap=8),
        lambda m: m.stft(x, nperseg=8, nfft=4),
        lambda m: m.stft(x, window=np.ones((2, 2))),
        lambda m: m.stft(x, window=np.ones(21)),
        lambda m: m.stft(x, window=np.ones(8), nperseg=7),
        lambda m: m.stft(x, nperseg=8, boundary="some"),
        lambda m: m.stft(x, nperseg=0),
        lambda m: m.welch(x, nperseg=4, scaling="some"),
        lambda m: m.welch(x, nperseg=4, average="some"),
        lambda m: m.periodogram(x, window=np.ones(19)),
        lambda m: m.istft(np.ones(3)),
        lambda m: m.istft(np.ones((3, 3)), time_axis=0, freq_axis=0),
    ):
        for module in (scipy.signal, signal):
            with pytest.raises(ValueError):
                call(module)
    with pytest.warns(UserWarning, match="nperseg"):
        signal.welch(x)
    with pytest.warns(UserWarning, match="onesided"):
        signal.csd(x + 1j, x, nperseg=4)
    with pytest.warns(UserWarning, match="NOLA"):
        signal.istft(np.ones((3, 3)), boundary=False)


def test_the_namespace_is_scipys():
    assert signal.butter is scipy.signal.butter
    assert signal.windows.hann(4).shape == (4,)
    assert {"butter", "lfilter"} <= set(dir(signal))
