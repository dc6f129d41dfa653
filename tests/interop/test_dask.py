"""fungrad.dask: equal to in memory, by chunk and by worker, and to the bit where a worker dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fungrad as fg
import fungrad.dask
from fungrad.errors import ArgumentError, ShapeError
from fungrad.tracing.bound_names import bindings_of

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

ROWS = 530
RNG = np.random.default_rng(0)
X = RNG.standard_normal((ROWS, 4))
Y = (RNG.random(ROWS) < 0.5) * 1.0
W = {"slope": RNG.standard_normal(4), "offset": 0.3}


def logistic(w: Any, x: Any, y: Any) -> Any:
    z = x @ w["slope"] + w["offset"]
    return np.sum(np.logaddexp(0.0, z) - y * z)


def squares(w: Any, x: Any, scale: Any, y: Any) -> Any:
    return np.mean((x @ w["slope"] + w["offset"] - y) ** 2) * scale


def lazy(chunk: int = 100) -> tuple[Any, Any]:
    return da.from_array(X, chunks=(chunk, 4)), da.from_array(Y, chunks=chunk)


def assert_equal(found: Any, want: Any, rtol: float = 1e-12) -> None:
    assert fg.trees.structure(found) == fg.trees.structure(want)
    for a, b in zip(fg.trees.leaves(found), fg.trees.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-13)


def same_bits(found: Any, want: Any) -> bool:
    pairs = zip(fg.trees.leaves(found), fg.trees.leaves(want), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


@pytest.fixture(params=["synchronous", "threads"])
def scheduler(request: Any) -> Iterator[None]:
    with dask.config.set(scheduler=request.param):
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheduler", "chunk"),
    [("synchronous", 100), ("synchronous", 530), ("threads", 7)],
    indirect=["scheduler"],
)
@pytest.mark.usefixtures("scheduler")
def test_equal_to_in_memory(chunk: int) -> None:
    loss = fg.dask.value_and_grad(logistic, data=(1, 2))
    arrays = lazy(chunk)
    assert_equal(loss(W, *arrays), fg.value_and_grad(logistic)(W, X, Y))
    assert_equal(loss.delayed(W, *arrays).compute(), fg.value_and_grad(logistic)(W, X, Y))
    product = fg.hvp(lambda w: logistic(w, X, Y), (W,), (W,))[0]
    assert_equal(loss.hvp(W, W, *arrays), product)
    assert_equal(loss.hessian(W, *arrays), fg.hessian(logistic)(W, X, Y))
    assert same_bits(loss(W, *arrays), loss(W, *arrays))


@pytest.mark.slow
@pytest.mark.usefixtures("scheduler")
def test_means_weigh_by_rows_and_other_arguments_are_passed_on() -> None:
    loss = fg.dask.value_and_grad(squares, data=(1, 3), reduce="mean")
    x, y = lazy(100)  # the last chunk has 30 rows
    assert_equal(loss(W, x, 2.0, y), fg.value_and_grad(squares)(W, X, 2.0, Y))


@pytest.mark.usefixtures("scheduler")
def test_minibatches_are_partitions() -> None:
    loss = fg.dask.value_and_grad(logistic, data=(1, 2))
    x, y = lazy(100)
    for i in (0, 5):
        rows = slice(100 * i, 100 * (i + 1))
        want = fg.value_and_grad(logistic)(W, X[rows], Y[rows])
        assert_equal(loss(W, x.partitions[i], y.partitions[i]), want)


def test_chunks_at_odd_bytes_have_the_same_bits() -> None:
    def moved(chunk: np.ndarray) -> np.ndarray:
        bytes_ = np.empty(chunk.nbytes + 1, np.uint8)[1:]
        other = bytes_.view(chunk.dtype).reshape(chunk.shape)
        other[...] = chunk
        assert not other.flags.aligned
        return other

    rows = np.random.default_rng(1).standard_normal((30_000, 20))
    w = {"slope": rows[0], "offset": 0.3}
    loss = fg.dask.value_and_grad(logistic, data=(1, 2))
    x, y = da.from_array(rows, chunks=(30_000, 20)), da.from_array(rows[:, 0] * 1.0, chunks=30_000)
    with dask.config.set(scheduler="synchronous"):
        assert same_bits(loss(w, x.map_blocks(moved), y.map_blocks(moved)), loss(w, x, y))


def test_arrays_of_xarray() -> None:
    xarray = pytest.importorskip("xarray")
    x, y = lazy()
    arrays = (xarray.DataArray(x, dims=("row", "column")), xarray.DataArray(y, dims="row"))
    with dask.config.set(scheduler="synchronous"):
        found = fg.dask.value_and_grad(logistic, data=(1, 2))(W, *arrays)
    assert_equal(found, fg.value_and_grad(logistic)(W, X, Y))


def test_with_an_optimiser_of_scipy() -> None:
    from scipy.optimize import minimize

    def loss(w: Any, x: Any, y: Any) -> Any:
        return np.mean((x @ w - y) ** 2)

    both = fg.dask.value_and_grad(loss, data=(1, 2), reduce="mean")
    x, y = lazy()
    with dask.config.set(scheduler="synchronous"):
        found = minimize(both, np.zeros(4), args=(x, y), jac=True)
    np.testing.assert_allclose(found.x, np.linalg.lstsq(X, Y)[0], atol=1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda x, y: (x.rechunk((100, 2)), y), r"X\.rechunk\(\{1: -1\}\)"),
        (lambda x, y: (x, y.rechunk(50)), r"other chunks along axis 0.*\(100, 100"),
        (lambda x, y: (x[x[:, 0] > 0], y), "compute_chunk_sizes"),
        (lambda x, y: (X, y), "not a Dask array"),
        (lambda x, y: (x,), "names argument 2, but 2 arguments"),
    ],
)
def test_arrays_that_do_not_fit(make: Any, words: str) -> None:
    loss = fg.dask.value_and_grad(logistic, data=(1, 2))
    with pytest.raises(ArgumentError, match=words):
        loss(W, *make(*lazy()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reduce": "max"}, "reduce='max'"),
        ({"by": "row"}, "by='row'"),
        ({"data": 0}, "position 0 is that of the parameters"),
        ({"data": ()}, r"data=\(\)"),
    ],
)
def test_options_that_do_not_exist(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        fg.dask.value_and_grad(logistic, **options)


def test_a_loss_that_is_no_number_is_refused() -> None:
    loss = fg.dask.value_and_grad(lambda w, x: x @ w, data=1)
    with dask.config.set(scheduler="synchronous"), pytest.raises(fg.errors.FungradError):
        loss(np.ones(4), lazy()[0])


def test_delayed_is_a_pair_of_delayed_values() -> None:
    value, gradient = fg.dask.value_and_grad(logistic, data=(1, 2)).delayed(W, *lazy())
    with dask.config.set(scheduler="synchronous"):
        found = dask.compute(value * 2.0, gradient)
        assert_equal(gradient["slope"].compute(), found[1]["slope"])
    want = fg.value_and_grad(logistic)(W, X, Y)
    assert_equal(found, (want[0] * 2.0, want[1]))


MADE: list[Any] = []


def counted(block: Any) -> Any:
    MADE.append(block.shape)
    return block


@pytest.mark.slow
def test_by_worker_persists_the_data_itself() -> None:
    distributed = pytest.importorskip("distributed")
    MADE.clear()
    with distributed.Client(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ):
        x, y = lazy(100)
        x = x.map_blocks(counted, meta=X[:0])
        loss = fg.dask.value_and_grad(logistic, data=(1, 2), by="worker")
        first = loss(W, x, y)
        assert_equal(first, fg.value_and_grad(logistic)(W, X, Y))
        assert len(MADE) == 6 and [len(group) for group in loss._groups[loss._held[1][0].name]] == [
            6
        ]
        assert same_bits(loss(W, x, y), first) and len(MADE) == 6  # read once
        other = loss(W, x[:200], y[:200])
        assert_equal(other, fg.value_and_grad(logistic)(W, X[:200], Y[:200]))
        assert [array.shape[0] for array in loss._held[1]] == [200, 200]


def test_by_worker_needs_workers() -> None:
    with pytest.raises(ArgumentError, match=r"distributed\.Client\(\)"):
        fg.dask.value_and_grad(logistic, data=(1, 2), by="worker")(W, *lazy())


def test_large_closures_are_warned_of() -> None:
    large = np.zeros(1 << 18)
    with pytest.warns(UserWarning, match=r"2\.1 MB of arrays"):
        fg.dask.value_and_grad(lambda w, x: np.sum(x @ w) + np.sum(large))


@pytest.mark.slow
def test_the_order_of_sums_is_kept_while_chunks_are_computed_anew(monkeypatch: Any) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.Client(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as client:
        held = client.persist(list(lazy(7)))
        distributed.wait(held)
        losses = [fg.dask.value_and_grad(logistic, data=(1, 2), by=by) for by in ("auto", "worker")]
        first = [loss(W, *held) for loss in losses]
        by_chunk = fg.dask.value_and_grad(logistic, data=(1, 2), by="chunk")(W, *held)
        assert not same_bits(first, [by_chunk, by_chunk])
        monkeypatch.setattr(client, "who_has", lambda futures: {})  # as where a worker has died
        assert same_bits([loss(W, *held) for loss in losses], first)


@pytest.mark.slow
def test_workers_of_a_cluster() -> None:
    distributed = pytest.importorskip("distributed")
    want = fg.value_and_grad(logistic)(W, X, Y)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "300s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        loss = fg.dask.value_and_grad(logistic, data=(1, 2))
        by_chunk = loss(W, *lazy())
        assert_equal(by_chunk, want)
        held = client.persist(list(lazy()))
        distributed.wait(held)
        first = loss(W, *held)
        assert_equal(first, want)
        groups = next(iter(loss._groups.values()))
        futures = sorted(distributed.futures_of(held[0]), key=lambda future: future.key)
        where = client.who_has(futures)
        holders = [where[future.key] for future in futures]
        assert len(holders) == 6 and sorted(i for group in groups for i in group) == list(range(6))
        assert sorted(map(sorted, groups)) == sorted(  # any of them may hold all
            [i for i in range(6) if holders[i] == place] for place in set(holders)
        )
        assert same_bits(loss(W, *held), first)
        wide = {"slope": np.zeros(4), "offset": 0.0, "unused": np.ones(1 << 18)}
        assert_equal(loss(wide, *held), fg.value_and_grad(logistic)(wide, X, Y))
        with pytest.raises(ShapeError, match="matmul") as raised:
            loss({"slope": np.ones(3), "offset": 0.0}, *held)
        assert "logistic" in [entry.name for entry in raised.traceback]  # the user's line
        killed, pid = next(iter(client.run(os.getpid).items()))
        os.kill(pid, signal.SIGKILL)  # its chunks are computed anew elsewhere
        while killed in cluster.scheduler.workers:  # else the other may try to reach it for 300 s
            time.sleep(0.01)
        assert same_bits(loss(W, *held), first)


def test_code_of_dask_is_not_read_for_functions_to_replace() -> None:
    """SciPy asks whether an array is Dask's: thousands of Dask's functions were read then."""
    special = pytest.importorskip("scipy.special")
    names: set[str] = set()
    bindings_of(special.softmax, special.softmax, lambda _: None, lambda *_: None, names=names)
    assert "dask" in "".join(names) and "HighLevelGraph" not in names
