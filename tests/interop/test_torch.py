"""`fg.to_torch`: NumPy functions as operations of PyTorch, of every order, batched, transformed."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.special

import fungrad as fg
from fungrad.errors import ArgumentError

torch = pytest.importorskip("torch")

gradcheck, gradgradcheck = torch.autograd.gradcheck, torch.autograd.gradgradcheck


def draw(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=dtype).add_(0.4).requires_grad_()


def triangular(a):
    return np.linalg.cholesky(a @ a.T + 3.0 * np.eye(a.shape[0]))


def loop(x):
    total = 0.0
    for i in range(x.shape[0]):
        total = total * 0.5 + np.sin(x[i]) * total + x[i] ** 2
    return total


def branch(x):
    if np.sum(x) > 1.0:
        return np.exp(-x)
    return x**3


def scanned(x):
    def step(h, x):
        h = np.tanh(0.3 * h + x)
        return h, h

    return fg.lax.scan(step, 0.1, x)[1]


FUNCTIONS = {
    "elementwise": (lambda x, y: np.sin(x) * y**2 / (1.0 + x), (draw(4), draw(4, seed=1))),
    "broadcast": (lambda x, y: np.hypot(x[:, None], y), (draw(3), draw(4, seed=1))),
    "product": (lambda a, b: np.tanh(a @ b), (draw(3, 4), draw(4, 2, seed=1))),
    "cholesky": (triangular, (draw(3, 3),)),
    "solve": (lambda a, b: np.linalg.solve(a + 3.0 * np.eye(3), b), (draw(3, 3), draw(3, seed=1))),
    "special": (lambda x: scipy.special.gammaln(x) + scipy.special.erf(x), (draw(5),)),
    "loop": (loop, (draw(5),)),
    "branch": (branch, (draw(5),)),
    "scan": (scanned, (draw(6),)),
    "tree": (lambda p: (p["a"] * 2.0, {"b": np.sum(p["b"] ** 3)}), ({"a": draw(2), "b": draw(3)},)),
    "gradient": (fg.grad(lambda x: np.sum(np.exp(x) * x)), (draw(4),)),
    "complex": (lambda z: np.exp(z) * np.conj(z), (draw(3, dtype=torch.complex128),)),
}


@pytest.mark.filterwarnings("ignore:Input #")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_pytorchs_own_checks(name):
    f, args = FUNCTIONS[name]
    leaves = [x for a in args for x in (a.values() if isinstance(a, dict) else [a])]
    g = fg.to_torch(f)

    def flat(*values):
        given = [dict(zip(args[0], values, strict=True))] if isinstance(args[0], dict) else values
        out = g(*given)
        return (out[0], out[1]["b"]) if isinstance(out, tuple) else out

    assert gradcheck(flat, leaves)
    assert gradgradcheck(flat, leaves)
    assert gradcheck(flat, leaves, check_forward_ad=True, check_backward_ad=False)


def test_values_and_gradients_are_fungrads():
    f, (x, y) = FUNCTIONS["elementwise"]
    out = fg.to_torch(f)(x, y)
    np.testing.assert_array_equal(out.detach().numpy(), f(x.detach().numpy(), y.detach().numpy()))
    out.sum().backward()
    expected = fg.grad(lambda x, y: np.sum(f(x, y)), (0, 1))(x.detach().numpy(), y.detach().numpy())
    np.testing.assert_allclose(x.grad.numpy(), expected[0], rtol=1e-12)
    np.testing.assert_allclose(y.grad.numpy(), expected[1], rtol=1e-12)


def test_between_operations_of_pytorch():
    network = torch.nn.Linear(4, 3).double()
    f = fg.to_torch(lambda h, w: np.sum(np.log1p(np.exp(h @ w))))
    w = torch.nn.Parameter(draw(3, 2).detach())
    x = draw(5, 4).detach()
    f(network(x), w).backward()
    theirs = torch.nn.functional.softplus(network(x) @ w).sum()
    expected = torch.autograd.grad(theirs, (w, *network.parameters()))
    for found, want in zip((w, *network.parameters()), expected, strict=True):
        torch.testing.assert_close(found.grad, want)


def test_torch_vmap_and_func():
    f, (x, y) = FUNCTIONS["elementwise"]
    g = fg.to_torch(lambda x, y: np.sum(f(x, y)))
    rows = torch.stack([x, 2 * x, y]).detach()
    y = y.detach()
    together = torch.vmap(g, in_dims=(0, None))(rows, y)
    one_by_one = torch.stack([g(row, y) for row in rows])
    torch.testing.assert_close(together, one_by_one)
    columns = torch.vmap(g, in_dims=(1, None))(rows.T.contiguous(), y)
    torch.testing.assert_close(columns, one_by_one)
    per_sample = torch.vmap(torch.func.grad(g), in_dims=(0, None))(rows, y)
    torch.testing.assert_close(per_sample[1], torch.func.grad(g)(rows[1], y))
    hessian = torch.func.hessian(g)(rows[0], y)
    torch.testing.assert_close(hessian, torch.autograd.functional.hessian(g, (rows[0], y))[0][0])
    jacobian = torch.func.jacfwd(fg.to_torch(np.tanh))(y)
    torch.testing.assert_close(jacobian, torch.diag(1.0 - torch.tanh(y) ** 2))


def test_dtypes_and_results_without_derivatives():
    x = draw(4, dtype=torch.float32)
    f = fg.to_torch(lambda x: (x * 2, np.argmax(x), np.zeros(2)))
    out, places, count = f(x)
    assert out.dtype == torch.float32 and places.dtype == torch.int64
    assert out.requires_grad and not places.requires_grad
    out.sum().backward()
    torch.testing.assert_close(x.grad, torch.full((4,), 2.0))
    count.detach().add_(1.0)  # a constant of the program is not shared
    assert not f(x)[2].any()


def test_memory_is_shared_with_results_and_arguments():
    x = torch.arange(6.0, dtype=torch.float64).reshape(2, 3).T  # in another order of memory
    seen = []

    def record(a):
        seen.append(a.__array_interface__["data"][0] if isinstance(a, np.ndarray) else 0)
        return a * 1.0

    out = fg.to_torch(record, compiled=False)(x)
    assert seen[-1] == x.data_ptr() and torch.equal(out, x)
    y = torch.view_as_complex(draw(3, 2).detach()).conj()
    torch.testing.assert_close(fg.to_torch(lambda z: z * 2)(y), (y * 2).resolve_conj())


def test_arguments_that_are_no_tensors():
    f = fg.to_torch(lambda x, axis, how: np.sum(x, axis=axis) if how == "sum" else np.max(x, axis))
    x = draw(3, 4)
    torch.testing.assert_close(f(x, 0, "sum"), x.sum(0))
    torch.testing.assert_close(f(x, axis=1, how="max"), x.max(1).values)
    weights = np.ones(4)
    g = fg.to_torch(lambda x, w: x @ w)
    torch.testing.assert_close(g(x, weights), x.sum(1))
    weights[:] = 2.0  # an array is no constant
    torch.testing.assert_close(g(x, weights), 2 * x.sum(1))


def test_tensors_changed_between_forward_and_backward_are_refused():
    x = draw(3)
    out = fg.to_torch(np.exp)(x).sum()
    with torch.no_grad():
        x += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_other_devices_and_dtypes_are_refused():
    with pytest.raises(ArgumentError, match=r"is on meta.*tensor\.cpu"):
        fg.to_torch(np.sin)(torch.ones(2, device="meta"))
    with pytest.raises(ArgumentError, match=r"bfloat16.*tensor\.float"):
        fg.to_torch(np.sin)(torch.ones(2, dtype=torch.bfloat16))


def test_threads():
    f = fg.to_torch(lambda x: np.sum(np.sin(x) ** 2))
    found = []

    def work(seed):
        x = draw(50, seed=seed)
        for _ in range(20):
            (gradient,) = torch.autograd.grad(f(x), x)
        found.append(torch.allclose(gradient, torch.sin(2 * x)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


def test_a_physical_model_in_a_training_loop():
    # the rate of a reaction is learned through an ODE solver written with NumPy
    def decay(rate):
        def step(y, _):
            k1 = -rate * y
            k2 = -rate * (y + 0.05 * k1)
            return y + 0.1 * k2, y

        return fg.lax.scan(step, np.ones(1), None, length=20)[1]

    truth = torch.from_numpy(decay(np.float64(0.8)))
    rate = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([rate], max_iter=30)
    model = fg.to_torch(decay)

    def closure():
        optimizer.zero_grad()
        loss = ((model(rate) - truth) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert rate.item() == pytest.approx(0.8, abs=1e-4)
