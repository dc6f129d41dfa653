"""Programs with a known loss of digits, and accurate ones, each with its exact value by mpmath.

A comment `# loses` marks the line that loses most; a word behind it is the advice that fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

import fungrad as fg


class Program(NamedTuple):
    """A program, its arguments, and its exact value as a function of the same numbers."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    exact: Callable[..., Any]
    chaotic: bool = False


LOSSES: dict[str, Program] = {}
ACCURATE: dict[str, Program] = {}


def loss(*args: Any, exact: Callable[..., Any], chaotic: bool = False) -> Any:
    """Declares a program that loses digits."""

    def declare(f: Any) -> Any:
        LOSSES[f.__name__] = Program(f, args, exact, chaotic)
        return f

    return declare


def accurate(*args: Any, exact: Callable[..., Any]) -> Any:
    """Declares a program that loses less than one digit."""

    def declare(f: Any) -> Any:
        ACCURATE[f.__name__] = Program(f, args, exact)
        return f

    return declare


def matrix(a: Any) -> Any:
    """A matrix of exact numbers."""
    return mp.matrix(np.asarray(a, float).tolist())


def sums(terms: Any) -> Any:
    """The exact sum."""
    return mp.fsum(list(terms))


RANDOM = np.random.default_rng(7)

# --- cancellation of nearly equal numbers ---------------------------------------------------------


@loss(1.3e-5, exact=lambda x: (1 - mp.cos(x)) / mp.mpf(x) ** 2)
def one_minus_cos(x):
    c = np.cos(x)
    d = 1 - c  # loses cosine
    return d / x**2


@loss(3.1e-9, exact=lambda x: mp.expm1(x) / x)
def exp_minus_one(x):
    e = np.exp(x)
    return (e - 1) / x  # loses exp


@loss(2.7e-10, exact=lambda x: mp.log1p(x) / x)
def log_of_one_plus(x):
    return np.log(1 + x) / x  # loses log


@loss(3.7e11, exact=lambda x: mp.sqrt(mp.mpf(x) + 1) - mp.sqrt(x))
def difference_of_roots(x):
    a, b = np.sqrt(x + 1), np.sqrt(x)
    return a - b  # loses roots


@loss(2e-6, exact=lambda x: (x - mp.sin(x)) / mp.mpf(x) ** 3)
def x_minus_sine(x):
    s = np.sin(x)
    return (x - s) / x**3  # loses difference


@loss(1.7342e8, exact=lambda x: 1 / mp.mpf(x) - 1 / (mp.mpf(x) + 1))
def difference_of_quotients(x):
    return 1 / x - 1 / (x + 1)  # loses difference


@loss(1.00001, 1e5, 0.7, exact=lambda a, b, c: (-b + mp.sqrt(mp.mpf(b) ** 2 - 4 * a * c)) / (2 * a))
def quadratic_root(a, b, c):
    d = np.sqrt(b * b - 4 * a * c)
    return (-b + d) / (2 * a)  # loses quadratic


@loss(
    1.22,
    3.34,
    2.28,
    exact=lambda a, b, c: mp.mpf(b) ** 2 - 4 * mp.mpf(a) * c,
)
def discriminant(a, b, c):
    return b * b - 4 * a * c  # loses products


def heron(a, b, c):
    s = (mp.mpf(a) + b + c) / 2
    return mp.sqrt(s * (s - a) * (s - b) * (s - c))


@loss(9.0, 4.53, 4.53, exact=heron)
def needle_triangle(a, b, c):
    s = (a + b + c) / 2
    return np.sqrt(s * (s - a) * (s - b) * (s - c))


@loss(100000.0, 99999.99979, 0.00029, exact=heron)
def kahan_triangle(a, b, c):
    s = (a + b + c) / 2
    return np.sqrt(s * (s - a) * (s - b) * (s - c))  # loses difference


def exact_cross(u, v):
    u, v = [mp.mpf(float(x)) for x in u], [mp.mpf(float(x)) for x in v]
    return [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]


@loss(
    np.array([33962.035, 41563.4, 7706.415]),
    np.array([-24871.969, -30438.8, -5643.727]) * 1.00001,
    exact=exact_cross,
)
def kahan_cross(u, v):
    a = u[1] * v[2] - u[2] * v[1]
    b = u[2] * v[0] - u[0] * v[2]
    c = u[0] * v[1] - u[1] * v[0]
    return np.stack([a, b, c])


@loss(
    77617.0,
    33096.0,
    exact=lambda a, b: (
        mp.mpf(333.75) * mp.mpf(b) ** 6
        + mp.mpf(a) ** 2
        * (11 * mp.mpf(a) ** 2 * mp.mpf(b) ** 2 - mp.mpf(b) ** 6 - 121 * mp.mpf(b) ** 4 - 2)
        + mp.mpf(5.5) * mp.mpf(b) ** 8
        + mp.mpf(a) / (2 * mp.mpf(b))
    ),
)
def rump(a, b):
    first = 333.75 * b**6
    second = a**2 * (11 * a**2 * b**2 - b**6 - 121 * b**4 - 2)
    third = 5.5 * b**8
    return first + second + third + a / (2 * b)  # loses products


@loss(
    1.0009765625001,
    exact=lambda x: (
        mp.mpf(x) ** 7
        - 7 * mp.mpf(x) ** 6
        + 21 * mp.mpf(x) ** 5
        - 35 * mp.mpf(x) ** 4
        + 35 * mp.mpf(x) ** 3
        - 21 * mp.mpf(x) ** 2
        + 7 * mp.mpf(x)
        - 1
    ),
)
def expanded_power(x):
    return x**7 - 7 * x**6 + 21 * x**5 - 35 * x**4 + 35 * x**3 - 21 * x**2 + 7 * x - 1  # loses


@loss(-19.7, exact=lambda x: mp.exp(x))
def exp_by_series(x):
    total, term = 1.0, 1.0
    for k in range(1, 90):
        term = term * x / k
        total = total + term  # loses series
    return total


@loss(31.4, exact=lambda x: mp.sin(x))
def sine_by_series(x):
    total, term = x, x
    for k in range(1, 70):
        term = -term * x * x / ((2 * k) * (2 * k + 1))
        total = total + term  # loses series
    return total


# --- recurrences ----------------------------------------------------------------------------------


def exact_muller(a, b):
    a, b = mp.mpf(a), mp.mpf(b)
    for _ in range(9):
        a, b = b, 111 - 1130 / b + 3000 / (a * b)
    return b


@loss(2.0, -4.0, exact=exact_muller)
def muller(a, b):
    for _ in range(9):
        a, b = b, 111 - 1130 / b + 3000 / (a * b)  # loses recurrence
    return b


@loss(2.0, -4.0, exact=exact_muller)
def muller_scan(a, b):
    def step(carry, _):
        a, b = carry
        return (b, 111 - 1130 / b + 3000 / (a * b)), None  # loses recurrence

    return fg.lax.scan(step, (a, b), None, length=9)[0][1]


@loss(1.0, exact=lambda x: mp.besselj(8, x))
def bessel_upward(x):
    a, b = fg.scipy.special.j0(x), fg.scipy.special.j1(x)
    for n in range(1, 8):
        a, b = b, 2 * n / x * b - a  # loses recurrence
    return b


def exact_integral(n):
    return lambda x: mp.quad(lambda t: t**n * mp.exp(t - 1), [0, 1]) * x


@loss(1.0, exact=exact_integral(14))
def integral_recurrence(x):
    value = 1 - np.exp(-x)
    for n in range(1, 15):
        value = x - n * value  # loses recurrence
    return value


def exact_logistic(x):
    x = mp.mpf(x)
    for _ in range(30):
        x = mp.mpf(3.9) * x * (1 - x)
    return x


@loss(0.3, exact=exact_logistic)
def logistic_map(x):
    for _ in range(30):
        x = 3.9 * x * (1 - x)  # loses
    return x


# --- statistics -----------------------------------------------------------------------------------

SAMPLE = 1e6 + RANDOM.normal(size=500)


def exact_variance(x):
    x = [mp.mpf(float(v)) for v in x]
    mean = mp.fsum(x) / len(x)
    return mp.fsum((v - mean) ** 2 for v in x) / len(x)


@loss(SAMPLE, exact=exact_variance)
def textbook_variance(x):
    return np.mean(x**2) - np.mean(x) ** 2  # loses variance


@loss(SAMPLE[:60], exact=exact_variance)
def one_pass_moments(x):
    first, second = 0.0, 0.0
    for i in range(len(x)):
        first = first + x[i]
        second = second + x[i] * x[i]
    mean = first / len(x)
    return second / len(x) - mean * mean  # loses variance


Y_SAMPLE = 3.0 * SAMPLE + RANDOM.normal(size=500)


def exact_slope(x, y):
    x, y = [mp.mpf(float(v)) for v in x], [mp.mpf(float(v)) for v in y]
    mx, my = mp.fsum(x) / len(x), mp.fsum(y) / len(y)
    return mp.fsum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / mp.fsum(
        (a - mx) ** 2 for a in x
    )


@loss(SAMPLE, Y_SAMPLE, exact=exact_slope)
def textbook_slope(x, y):
    n = len(x)
    top = n * np.sum(x * y) - np.sum(x) * np.sum(y)  # loses
    bottom = n * np.sum(x * x) - np.sum(x) ** 2  # loses
    return top / bottom


@loss(1e4 + RANDOM.normal(size=300), exact=lambda x: exact_skew(x))
def third_moment(x):
    m = np.mean(x)
    return np.mean(x**3) - 3 * m * np.mean(x**2) + 2 * m**3  # loses


def exact_skew(x):
    x = [mp.mpf(float(v)) for v in x]
    mean = mp.fsum(x) / len(x)
    return mp.fsum((v - mean) ** 3 for v in x) / len(x)


# --- linear algebra -------------------------------------------------------------------------------

HILBERT = 1.0 / (np.arange(8)[:, None] + np.arange(8) + 1)
NODES = np.linspace(0.1, 1.3, 11)
VANDERMONDE = NODES[:, None] ** np.arange(11)


@loss(HILBERT, np.arange(1.0, 9.0), exact=lambda a, b: list(mp.lu_solve(matrix(a), matrix(b))))
def hilbert_solve(a, b):
    return np.linalg.solve(a, b)  # loses matrix


@loss(VANDERMONDE, np.sin(NODES), exact=lambda a, b: list(mp.lu_solve(matrix(a), matrix(b))))
def vandermonde_solve(a, b):
    return np.linalg.solve(a, b)  # loses matrix


@loss(HILBERT, np.ones(8), exact=lambda a, b: list(mp.inverse(matrix(a)) * matrix(b)))
def solve_by_inverse(a, b):
    inverse = np.linalg.inv(a)  # loses inverse
    return inverse @ b


@loss(HILBERT[:, :7], exact=lambda a: mp.det(matrix(a).T * matrix(a)))
def gram_determinant(a):
    g = a.T @ a
    return np.linalg.det(g)  # loses determinant


DESIGN = np.linspace(10.0, 11.0, 40)[:, None] ** np.arange(4)
RESPONSE = np.sin(np.linspace(0, 2, 40))


def exact_fit(x, y):
    x, y = matrix(x), matrix(y)
    return list(mp.lu_solve(x.T * x, x.T * y))


@loss(DESIGN, RESPONSE, exact=exact_fit)
def normal_equations(x, y):
    gram = x.T @ x
    return np.linalg.solve(gram, x.T @ y)  # loses normal


@loss(DESIGN, RESPONSE, exact=exact_fit)
def fit_by_qr(x, y):
    q, r = np.linalg.qr(x)  # loses
    return np.linalg.solve(r, q.T @ y)


POINTS = np.linspace(0, 1, 12)


def exact_gp(x, y):
    n = len(x)
    k = mp.matrix(n, n)
    for i in range(n):
        for j in range(n):
            k[i, j] = mp.exp(-((mp.mpf(float(x[i])) - mp.mpf(float(x[j]))) ** 2) / 2)
        k[i, i] += mp.mpf(1e-9)
    return (matrix(y).T * mp.lu_solve(k, matrix(y)))[0]


@loss(POINTS, np.cos(5 * POINTS), exact=exact_gp)
def gp_with_tiny_nugget(x, y):
    d = x[:, None] - x[None, :]
    k = np.exp(-(d**2) / 2) + 1e-9 * np.eye(12)
    return y @ np.linalg.solve(k, y)  # loses matrix


# --- differences, sums ----------------------------------------------------------------------------


@loss(1.1, exact=lambda x: (mp.sin(mp.mpf(x) + mp.mpf(2.0**-40)) - mp.sin(x)) / mp.mpf(2.0**-40))
def forward_difference(x):
    h = 2.0**-40
    return (np.sin(x + h) - np.sin(x)) / h  # loses step


@loss(
    0.9,
    exact=lambda x: (
        (
            mp.exp(mp.mpf(x) + mp.mpf(2.0**-20))
            - 2 * mp.exp(x)
            + mp.exp(mp.mpf(x) - mp.mpf(2.0**-20))
        )
        / mp.mpf(2.0**-40)
    ),
)
def second_difference(x):
    h = 2.0**-20
    return (np.exp(x + h) - 2 * np.exp(x) + np.exp(x - h)) / h**2  # loses step


@loss(np.float32(0.1), exact=lambda x: mp.mpf(float(x)) * 20000)
def long_single_sum(x):
    def step(total, _):
        return total + x, None  # loses accumulator

    return fg.lax.scan(step, np.float32(0), None, length=20_000)[0]


COLUMN = RANDOM.uniform(size=(30_000, 2)).astype(np.float32)


@loss(COLUMN, exact=lambda x: [sums(mp.mpf(float(v)) for v in c) for c in x.T])
def single_rows(x):
    return np.sum(x, axis=0)  # loses accumulator


@loss(np.float32(1.0001), exact=lambda x: mp.mpf(float(x)) ** 20000)
def compound_interest(rate):
    def step(capital, _):
        return capital * rate, None  # loses product

    return fg.lax.scan(step, np.float32(1), None, length=20_000)[0]


def exact_orbit(q):
    q, p, h = mp.mpf(float(q)), mp.mpf(0), mp.mpf(0.0078125)
    for _ in range(3000):
        p = p - h * mp.sin(q)
        q = q + h * p
    return q


@loss(np.float32(2.5), exact=exact_orbit)
def orbit(q):
    h = np.float32(0.0078125)

    def step(carry, _):
        q, p = carry
        p = p - h * np.sin(q)  # loses
        q = q + h * p  # loses
        return (q, p), None

    return fg.lax.scan(step, (q, np.float32(0)), None, length=3000)[0][0]


SIGNED = RANDOM.normal(size=2001)


@loss(
    SIGNED,
    exact=lambda x: (
        sums(mp.mpf(float(v)) for v in x) - mp.mpf(float(np.sum(SIGNED))) + mp.mpf(1e-9)
    ),
)
def sum_near_zero(x):
    total = np.sum(x)
    return total - float(np.sum(SIGNED)) + 1e-9  # loses


# --- functions far out ----------------------------------------------------------------------------


@loss(6.83, exact=lambda x: mp.erfc(x / mp.sqrt(2)) / 2)
def normal_tail(x):
    p = fg.scipy.stats.norm.cdf(x)
    return 1 - p  # loses tail


@loss(3.0e9, exact=lambda x: mp.sin(mp.mpf(x) * mp.mpf(np.pi) + 1))
def large_angle(x):
    angle = x * np.pi + 1.0
    return np.sin(angle)  # loses angle


@loss(1.5707, exact=lambda x: mp.pi / 2 - mp.mpf(x))
def arccosine_near_one(x):
    y = np.sin(x)
    return np.arccos(y)  # loses arc


@loss(1.0000001, exact=lambda x: mp.mpf(x) ** mp.mpf(3e9))
def large_exponent(x):
    return np.exp(3e9 * np.log(x))  # loses


@loss(171.35, 168.2, exact=lambda a, b: mp.exp(mp.loggamma(a) - mp.loggamma(b)))
def ratio_of_gammas(a, b):
    return np.exp(fg.scipy.special.gammaln(a) - fg.scipy.special.gammaln(b))  # loses


# --- accurate programs ----------------------------------------------------------------------------

X = RANDOM.uniform(0.5, 2.0, 50)
Y = RANDOM.normal(size=50)
WELL = RANDOM.normal(size=(6, 6)) + 6 * np.eye(6)


def numbers(x):
    """The entries of an array as exact numbers."""
    return [mp.mpf(float(v)) for v in np.ravel(x)]


@accurate(1.3e-5, exact=lambda x: 2 * (mp.sin(mp.mpf(x) / 2) / x) ** 2)
def half_angle(x):
    return 2 * (np.sin(x / 2) / x) ** 2


@accurate(3.1e-9, exact=lambda x: mp.expm1(x) / x)
def expm1(x):
    return np.expm1(x) / x


@accurate(2.7e-10, exact=lambda x: mp.log1p(x) / x)
def log1p(x):
    return np.log1p(x) / x


@accurate(3.7e11, exact=lambda x: 1 / (mp.sqrt(mp.mpf(x) + 1) + mp.sqrt(x)))
def conjugate_roots(x):
    return 1 / (np.sqrt(x + 1) + np.sqrt(x))


@accurate(1.25, 3.5, exact=lambda x, y: mp.mpf(x) ** 2 - mp.mpf(y) ** 2)
def exact_difference(x, y):
    return x * x - y * y


@accurate(1.2345678, 1.2345677, exact=lambda x, y: (mp.mpf(x) - y) * (mp.mpf(x) + y))
def factored_difference(x, y):
    return (x - y) * (x + y)


@accurate(
    1.00001,
    1e5,
    0.7,
    exact=lambda a, b, c: 2 * mp.mpf(c) / (-b - mp.sqrt(mp.mpf(b) ** 2 - 4 * mp.mpf(a) * c)),
)
def stable_root(a, b, c):
    return 2 * c / (-b - np.sqrt(b * b - 4 * a * c))


@accurate(SAMPLE, exact=exact_variance)
def two_pass_variance(x):
    return np.mean((x - np.mean(x)) ** 2)


@accurate(SAMPLE, exact=exact_variance)
def numpy_variance(x):
    return np.var(x)


@accurate(X, exact=lambda x: sums(numbers(x)))
def positive_sum(x):
    return np.sum(x)


@accurate(X, exact=lambda x: sums(numbers(x)) / len(x))
def mean(x):
    return np.mean(x)


@accurate(X, exact=lambda x: mp.sqrt(sums(v * v for v in numbers(x))))
def norm(x):
    return np.linalg.norm(x)


@accurate(
    X,
    X[::-1].copy(),
    exact=lambda x, y: sums(a * b for a, b in zip(numbers(x), numbers(y), strict=True)),
)
def dot(x, y):
    return x @ y


@accurate(X, exact=lambda x: mp.fprod(numbers(x)))
def product(x):
    return np.prod(x)


@accurate(np.array([1000.0, 1001.0]), exact=lambda z: z[1] + mp.log(1 + mp.exp(mp.mpf(-1))))
def shifted_logsumexp(z):
    top = np.max(z)
    return top + np.log(np.sum(np.exp(z - top)))


@accurate(Y, exact=lambda z: [mp.exp(v) / sums(mp.exp(w) for w in numbers(z)) for v in numbers(z)])
def softmax(z):
    e = np.exp(z - np.max(z))
    return e / np.sum(e)


@accurate(0.3, exact=lambda x: mp.exp(x) * mp.cos(x))
def smooth(x):
    return np.exp(x) * np.cos(x)


@accurate(2.0, exact=lambda x: mp.log(x) + mp.sqrt(x))
def log_and_root(x):
    return np.log(x) + np.sqrt(x)


@accurate(3e200, 4e200, exact=lambda x, y: mp.sqrt(mp.mpf(x) ** 2 + mp.mpf(y) ** 2))
def hypotenuse(x, y):
    return np.hypot(x, y)


@accurate(0.7, exact=lambda x: ((2 * mp.mpf(x) + 3) * x + 1) * x + 5)
def horner(x):
    return ((2 * x + 3) * x + 1) * x + 5


@accurate(19.7, exact=lambda x: mp.exp(x))
def positive_series(x):
    total, term = 1.0, 1.0
    for k in range(1, 90):
        term = term * x / k
        total = total + term
    return total


@accurate(WELL, np.arange(6.0), exact=lambda a, b: list(mp.lu_solve(matrix(a), matrix(b))))
def good_solve(a, b):
    return np.linalg.solve(a, b)


@accurate(WELL, exact=lambda a: mp.det(matrix(a)))
def good_determinant(a):
    return np.linalg.det(a)


@accurate(WELL, exact=lambda a: list(matrix(a) * matrix(a)))
def matrix_product(a):
    return (a @ a).ravel()


@accurate(np.float32(1.5), exact=lambda x: mp.sin(mp.mpf(float(x))) + mp.mpf(float(x)) ** 2)
def single(x):
    return np.sin(x) + x * x


@accurate(X.astype(np.float32), exact=lambda x: sums(numbers(x)))
def single_sum(x):
    return np.sum(x)


@accurate(2.0, exact=lambda x: mp.sqrt(x))
def newton_root(x):
    y = x
    for _ in range(8):
        y = (y + x / y) / 2
    return y


@accurate(2.0, exact=lambda x: mp.sqrt(x))
def newton_scan(x):
    def step(y, _):
        return (y + x / y) / 2, None

    return fg.lax.scan(step, x, None, length=8)[0]


@accurate(2.0, exact=lambda x: mp.sqrt(x))
def newton_while(x):
    def go_on(carry):
        return np.abs(carry[0] - carry[1]) > 1e-14

    def step(carry):
        return (carry[0] + x / carry[0]) / 2, carry[0]

    return fg.lax.while_loop(go_on, step, (x, 0.0))[0]


@accurate(0.9, exact=lambda x: mp.mpf(x) ** 2 + 1)
def branch(x):
    return fg.lax.cond(x > 0.5, lambda v: v * v + 1, lambda v: v, x)


@accurate(X, exact=lambda x: sums(mp.exp(-(v**2)) for v in numbers(x)))
def bumps(x):
    return np.sum(np.exp(-(x**2)))


@accurate(X, exact=lambda x: numbers(x))
def cumulated(x):
    return np.diff(np.cumsum(np.round(x * 1024) / 1024), prepend=0.0) * 0 + x


@accurate(1.7, exact=lambda x: mp.sin(x) ** 2 + mp.cos(x) ** 2)
def pythagoras(x):
    return np.sin(x) ** 2 + np.cos(x) ** 2


@accurate(5.0, exact=lambda x: mp.loggamma(x))
def log_gamma(x):
    return fg.scipy.special.gammaln(x)


@accurate(1.2, exact=lambda x: mp.erfc(mp.mpf(x) / mp.sqrt(2)) / 2)
def survival(x):
    return fg.scipy.stats.norm.sf(x)


@accurate(X, exact=lambda x: sums(v * mp.mpf(0.1) for v in numbers(x)))
def interest(x):
    return np.sum(x * 0.1)


@accurate(3.0, exact=lambda x: sums(1 / mp.mpf(k) for k in range(1, 31)) * x)
def harmonic(x):
    total, k = 0.0, x / 3
    for _ in range(30):
        total = total + 1 / k
        k = k + 1
    return total * x


@accurate(X, exact=lambda x: mp.fsum(numbers(x)) / mp.fsum(v * v for v in numbers(x)))
def ratio_of_sums(x):
    return np.sum(x) / np.sum(x * x)


@accurate(0.4, 0.6, exact=lambda x, y: abs(mp.exp(mp.mpc(x, y))))
def complex_exponential(x, y):
    return np.abs(np.exp(x + 1j * y))


@accurate(X, exact=lambda x: [2 * v * mp.cos(v * v) for v in numbers(x)])
def gradient(x):
    return fg.grad(lambda v: np.sum(np.sin(v * v)))(x)
