"""numpy.fft on traced values: NumPy's results under every transform, exact transposes."""

from __future__ import annotations

import numpy as np
import pytest
from surface import agrees, same, values

import fungrad as fg

REAL, COMPLEX = np.dtype(np.float64), np.dtype(np.complex128)
NORMS = (None, "backward", "ortho", "forward")
ALONG = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")
PLANE = ("fft2", "ifft2", "rfft2", "irfft2")
TAKES_REAL = ("rfft", "ihfft", "rfftn", "rfft2")


def dtypes(name):
    return (REAL,) if name in TAKES_REAL else (REAL, COMPLEX)


@pytest.mark.parametrize("name", ALONG)
@pytest.mark.parametrize("norm", NORMS)
def test_along_an_axis(name, norm):
    f = getattr(np.fft, name)
    for dtype in dtypes(name):
        for length in (4, 5):
            x = values((length,), dtype)
            for n in (None, 1, 3, 4, 7, 8)[NORMS.index(norm) % 2 :: 2]:
                agrees(lambda x, n=n: f(x, n, norm=norm), x, order=1)
        x = values((3, 4), dtype)
        for axis in (0, 1, -1):
            agrees(lambda x, axis=axis: f(x, axis=axis, norm=norm), x)


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("norm", NORMS)
def test_along_several_axes(name, norm):
    f = getattr(np.fft, name)
    for dtype in dtypes(name):
        x = values((2, 3, 4), dtype)
        agrees(lambda x: f(x, norm=norm), x, order=1)
        for axes in ((0,), (2, 0), (0, 1), (-1, -2, 0)):
            agrees(lambda x, axes=axes: f(x, axes=axes, norm=norm), x, order=1)
        agrees(lambda x: f(x, s=(3, 5), axes=(0, 2), norm=norm), x)
        agrees(lambda x: f(x, (1, 2), (1, 2), norm), x, order=1)
        agrees(lambda x: f(x, s=(-1, 3), axes=(0, 1), norm=norm), x, order=1)


@pytest.mark.parametrize("name", PLANE)
def test_in_a_plane(name):
    f = getattr(np.fft, name)
    for dtype in dtypes(name):
        x = values((2, 3, 4), dtype)
        agrees(f, x)
        agrees(lambda x: f(x, s=(4, 3), axes=(0, 1), norm="ortho"), x, order=1)


def test_an_axis_twice_is_transformed_twice():
    x = values((3, 2), COMPLEX)
    for axes in ((0, 0), (1, 0, 1)):
        agrees(lambda x, axes=axes: np.fft.fftn(x, axes=axes), x)
        agrees(lambda x, axes=axes: np.fft.ifftn(x, axes=axes, norm="ortho"), x)


def test_lengths_without_axes_are_of_the_last_ones_as_in_numpy():
    x = values((2, 3, 4))
    with pytest.warns(DeprecationWarning):
        expected = np.fft.fftn(x, s=(2, 5))
    with pytest.warns(DeprecationWarning):
        same(fg.jit(lambda x: np.fft.fftn(x, s=(2, 5)))(x), expected, "s alone")


def test_the_zero_frequency_in_the_middle():
    for shape in ((4,), (5,), (2, 3)):
        for f in (np.fft.fftshift, np.fft.ifftshift):
            agrees(f, values(shape))
            agrees(lambda x, f=f: f(x, axes=0), values(shape, COMPLEX))
    agrees(lambda x: np.fft.fftshift(x, axes=(0, -1)), values((2, 3, 4)))


@pytest.mark.parametrize("name", [*ALONG, *SEVERAL, *PLANE])
def test_single_precision_is_kept_and_integers_become_doubles(name):
    f = getattr(np.fft, name)
    for dtype in (np.float32, np.float16, np.int64, np.longdouble):
        agrees(f, values((3, 4), dtype), order=0)
    if name not in TAKES_REAL:
        agrees(f, values((3, 4), np.complex64), order=1)
    x = values((3, 4), np.float32)
    assert fg.grad(lambda x: np.sum(np.abs(f(x)) ** 2))(x).dtype == x.dtype


def test_parseval():
    x = values((6,))
    g = fg.grad(lambda x: np.sum(np.abs(np.fft.fft(x, norm="ortho")) ** 2))(x)
    np.testing.assert_allclose(g, 2 * x, rtol=1e-12)


def test_a_convolution_by_transforms():
    x, y = values((5,)), values((4,), seed=1)

    def by_transforms(x, y):
        return np.fft.irfft(np.fft.rfft(x, 8) * np.fft.rfft(y, 8), 8)

    same(by_transforms(x, y), np.convolve(x, y), "convolution")
    agrees(by_transforms, x, y)


def test_a_transform_is_one_equation_and_so_is_its_gradient():
    graph = fg.make_jaxpr(fg.linear_transpose(np.fft.fft2, np.ones((4, 4), complex)))
    assert str(graph(np.ones((4, 4), complex))).count("fft") == 1


def test_what_numpy_refuses_is_refused():
    x = np.ones(4)
    for bad, error in (
        (lambda x: np.fft.fft(x, 0), ValueError),
        (lambda x: np.fft.fft(x, norm="other"), ValueError),
        (lambda x: np.fft.fft(x, axis=1), IndexError),
        (lambda x: np.fft.fftn(x, s=(1, 2), axes=(0,)), ValueError),
        (lambda x: np.fft.rfft(x + 0j), TypeError),
        (lambda x: np.fft.rfftn(x, axes=()), IndexError),
        (lambda x: np.fft.irfft(x[:1]), ValueError),
    ):
        with pytest.raises(error):
            bad(x)
        with pytest.raises(error):
            fg.make_jaxpr(bad)(x)
    with pytest.raises(fg.errors.ItemAssignmentError, match=r"np\.fft"):
        fg.make_jaxpr(lambda x: np.fft.fft(x, out=np.loadtxt(["0 0 0 0"], complex)))(x)


def test_every_public_function_is_there():
    for name in dir(np.fft):
        if not name.startswith("_") and name != "test":
            assert getattr(fg.numpy.fft, name) is not None, name
    same(fg.numpy.fft.fftfreq(5, 0.5), np.fft.fftfreq(5, 0.5), "fftfreq")
    same(fg.numpy.fft.rfftfreq(5), np.fft.rfftfreq(5), "rfftfreq")
    same(fg.numpy.fft.rfft([1.0, 2.0]), np.fft.rfft([1.0, 2.0]), "a list")
