"""The tier of fast tests, the backend of tests, and fixtures: for the command line (a module's
`functions` is the path of a user's file), and for compilation with reassociation.
"""

from __future__ import annotations

import gc
import json
import os

import pytest
from hypothesis import HealthCheck, settings

# OpenBLAS's idle threads sleep at once: by default they keep a core of the other tests busy for
# 0.1 s after each product. It reads the variable when NumPy is imported.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

import fungrad as fg
from fungrad.cli.main import main
from fungrad.retracing import interned

# The same examples in every run, however slow the machine is: random programs, new ones each day,
# are the task of tests/fuzz.
settings.register_profile(
    "tests",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("tests")


def pytest_addoption(parser):
    parser.addoption(
        "--backend",
        default="numpy",
        choices=["numpy", "native"],
        help="the backend of compiled functions, except in tests that choose it",
    )


def pytest_configure(config):
    """Makes this process and its children use the backend of the option, and store no machine
    code.
    """
    os.environ["FUNGRAD_CACHE"] = "0"
    os.environ["FUNGRAD_STRICT"] = "1"
    fg.config.backend = config.getoption("--backend")
    os.environ["FUNGRAD_NATIVE"] = "1" if fg.config.backend == "native" else "0"


def pytest_collection():
    """Stops the garbage collector while tests are collected: it finds nothing to free."""
    gc.disable()


def pytest_collection_finish():
    """Freezes the present objects, and begins to collect again."""
    freeze()
    gc.enable()


def pytest_runtest_setup(item):
    """Forgets the Graphs of loops: a test may change passes, costs or settings."""
    interned.forget()


def pytest_runtest_teardown(item, nextitem):
    """Freezes what the tests of a file leave: imported packages, caches, Graphs."""
    if nextitem is None or nextitem.path != item.path:
        freeze()


def freeze():
    """Garbage collections from here on scan newer objects only, not millions of others."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def native():
    """Makes functions compiled in the test run natively."""
    pytest.importorskip("llvmlite")
    before = fg.config.backend
    fg.config.backend = "native"
    yield
    fg.config.backend = before


@pytest.fixture(params=["numpy", "native"])
def each_backend(request):
    """Runs the test with each backend: native code, where llvmlite is installed, and NumPy."""
    if request.param == "native":
        pytest.importorskip("llvmlite")
    before = fg.config.backend
    fg.config.backend = request.param
    yield request.param
    fg.config.backend = before


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Marks as `fast` the first case of every test that is not marked `slow`."""
    seen = set()
    native = config.getoption("--backend") == "native"
    for item in items:
        if native and item.get_closest_marker("numpy_backend") is not None:
            item.add_marker(pytest.mark.skip(reason="is about NumPy's programs"))
        name = item.nodeid.partition("[")[0]
        if name not in seen and item.get_closest_marker("slow") is None:
            seen.add(name)
            item.add_marker(pytest.mark.fast)


@pytest.fixture
def run(capsys, functions):
    """Runs a command; `FUNC` names the file of functions. Returns code, stdout, stderr."""

    def command(*arguments):
        texts = [str(a).replace("FUNC", functions) for a in arguments]
        try:
            code = main(texts)
        except SystemExit as leaving:
            code = leaving.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


@pytest.fixture
def run_json(run):
    def command(*arguments, code=0):
        found, out, err = run(*arguments, "--json")
        assert found == code, err
        return json.loads(out)

    return command


@pytest.fixture
def reassociated():
    """Lets code compiled in the test regroup sums and products."""
    fg.config.reassociate = True
    yield
    fg.config.reassociate = False


@pytest.fixture
def site_packages(tmp_path, monkeypatch):
    """A folder of installed packages, into which a test writes modules before it imports them."""
    home = tmp_path / "site-packages"
    home.mkdir()
    monkeypatch.syspath_prepend(home)
    return home
