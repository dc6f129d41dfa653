"""Files of Graphs and traced functions: the same when read, in any process, and safe to read."""

from __future__ import annotations

import collections
import importlib
import io
import json
import pickle
import random
import struct
import subprocess
import sys
import threading
import zipfile
from collections import OrderedDict, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import damage
import numpy as np
import pytest
from single import graphs

import fungrad as fg
from fungrad import extend
from fungrad.errors import ArgumentError, FungradError, SavedFileError, StructureMismatchError
from fungrad.ir import verifier as ir_check
from fungrad.ir.graph import Graph, Literal
from fungrad.primitives.primitive import Primitive
from fungrad.serialisation import archive
from fungrad.serialisation.archive import Exported

PYTHON_ONLY = {"custom", "debug_callback", "external", "sparse_eigsh", "sparse_solve"}
"""Primitives that hold Python functions, or objects of SciPy."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.fungrad"


def again(what, path):
    fg.save(what, path)
    return fg.load(path)


def same(a: Any, b: Any) -> bool:
    """Whether two parameters, constants or literals are equal to the last bit, class included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Graph):
        return a.show(source=True) == b.show(source=True)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (np.ndarray, np.generic)):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (float, complex)):
        return struct.pack("<dd", a.real, a.imag) == struct.pack("<dd", b.real, b.imag)
    return bool(a == b)


# -- Graphs ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_sample_of_every_primitive_comes_back_or_is_refused_by_name():
    refused = set()
    for name, graph, sample in graphs():
        try:
            found = again(graph, io.BytesIO())
        except ArgumentError as error:
            assert f"of the equation `{sample.name}`" in error.message
            refused.add(sample.name)
            continue
        assert found.show(source=True) == graph.show(source=True), name
        (old,), (new,) = graph.equations, found.equations
        assert new.primitive is old.primitive and found.name == graph.name
        assert new.params.keys() == old.params.keys(), name
        assert all(same(new.params[key], old.params[key]) for key in old.params), name
        pairs = zip(old.inputs, new.inputs, strict=True)
        literals = [(a, b) for a, b in pairs if isinstance(a, Literal)]
        assert all(same(a.value, b.value) and a.type == b.type for a, b in literals), name
    assert refused == PYTHON_ONLY


SCALARS = [
    1.5, -0.0, float("inf"), float("-inf"), 5e-324, 1e308,
    struct.unpack("<d", bytes.fromhex("010000000000f87f"))[0],  # NaN with a payload
    struct.unpack("<d", bytes.fromhex("0200000000c0f8ff"))[0],
    True, False, 3, -(2**63), complex(-0.0, float("nan")), complex(1.5, -2.5),
    np.float16(0.1), np.float32(-0.0), np.float64("nan"), np.complex64(1 - 2j),
    np.longdouble(1) / 3, np.clongdouble(2j) / 3, np.int8(-5), np.uint64(2**64 - 1), np.bool_(True),
]  # fmt: skip


@pytest.mark.parametrize("value", SCALARS, ids=lambda v: f"{type(v).__name__}-{v}")
def test_literals_are_the_same_to_the_last_bit(value, path):
    graph = fg.make_jaxpr(lambda x: np.add(x, value))(np.zeros(2, np.result_type(value)))
    found = again(graph, path)
    (old,) = (a for a in graph.equations[0].inputs if isinstance(a, Literal))
    (new,) = (a for a in found.equations[0].inputs if isinstance(a, Literal))
    assert same(old.value, value) and same(new.value, value) and old.type == new.type


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "F", "D", "G", "i1", "u8", "?", ">f8"])
def test_constants_are_the_same_to_the_last_bit(dtype, path):
    bits = np.random.default_rng(0).integers(0, 2, 640, np.uint8)
    constant = np.frombuffer(bits.tobytes(), "?" if dtype == "?" else np.uint8)
    if dtype in "gG":
        constant = np.array([1, -0.0, np.nan, 1e300, 3], dtype) / np.array(7, dtype)
    elif dtype != "?":
        constant = np.frombuffer(np.random.default_rng(0).bytes(640), dtype)
    constant = np.stack([constant, constant[::-1]]).T
    graph = fg.make_jaxpr(lambda x: (x, constant))(1.0)
    found = again(graph, path)
    ((_, old),), ((_, new),) = graph.constants, found.constants
    assert same(old, new) and not new.flags.writeable


def test_graphs_inside_come_back_and_shared_ones_stay_shared(path):
    double = fg.jit(lambda x: x * 2.0)

    def f(x):
        h, ys = fg.lax.scan(lambda c, y: (double(c) + y, np.sum(c)), x, np.ones((3, 2)))
        h = fg.lax.while_loop(lambda h: np.sum(h) < 50.0, lambda h: double(h) + 0.1, h)
        return fg.lax.cond(ys[0] > 1.0, np.sin, lambda v: double(double(v)), h)

    for each in (f, fg.grad(lambda x: np.sum(f(x))), fg.jacfwd(f)):
        graph = fg.make_jaxpr(each)(np.ones(2))
        found = again(graph, path)
        assert found.show(source=True) == graph.show(source=True)
        marks = [[e.backward for e in g.equations] for g in (graph, found)]
        assert marks[0] == marks[1]
        x = np.array([0.3, 0.4])
        assert same(fg.evaluate(graph, x), fg.evaluate(found, x))
    calls = again(fg.make_jaxpr(lambda x: double(double(x)))(1.0), path).equations
    assert calls[0].params["graph"] is calls[1].params["graph"]


def test_policies_of_checkpoint_come_back(path):
    policies = [fg.save_nothing, fg.save_dots, fg.save_names("a", "b"), 1000]
    for policy in policies:
        f = fg.checkpoint(lambda x: np.sin(np.sin(x)), policy=policy)
        graph = fg.make_jaxpr(f)(1.0)
        ((old,), (new,)) = (g.equations for g in (graph, again(graph, path)))
        assert new.params["policy"] == old.params["policy"]


def test_ufuncs_of_numpy_come_back_and_others_are_refused(path):
    apply = Primitive(
        "apply_for_saving", eval=lambda x, *, f: f(x), type=lambda x, *, f: x, cuts=True,
        batch=lambda args, batched, size, *, f: apply(args[0], f=f),
    )  # fmt: skip
    graph = fg.make_jaxpr(lambda x: apply(x, f=np.tanh))(1.0)
    assert again(graph, path).equations[0].params["f"] is np.tanh
    rewritten(path, set_in(first_equation, params={"f": {"ufunc": "save"}}))
    with pytest.raises(SavedFileError, match="no ufunc 'save'"):
        fg.load(path)
    odd = np.frompyfunc(abs, 1, 1)
    with pytest.raises(ArgumentError, match="the ufunc 'abs"):
        fg.save(fg.make_jaxpr(lambda x: apply(x, f=odd))(1.0), path)


def test_a_graph_saves_itself_and_equal_graphs_give_equal_files(path, tmp_path):
    for name in ("a", "b"):
        fg.make_jaxpr(lambda x: x + np.arange(3.0))(np.ones(3)).save(tmp_path / f"{name}.fungrad")
    first, second = ((tmp_path / f"{name}.fungrad").read_bytes() for name in "ab")
    assert first == second
    assert isinstance(fg.load(tmp_path / "a.fungrad"), Graph)


def test_sources_are_kept_or_left_out(path):
    graph = fg.make_jaxpr(np.sin)(1.0)
    assert again(graph, path).equations[0].source == graph.equations[0].source is not None
    fg.save(graph, path, sources=False)
    assert fg.load(path).equations[0].source is None
    assert __file__ not in zipfile.ZipFile(path).read("graph.json").decode()


# -- functions -------------------------------------------------------------------------------------


def model(params, x, *, scale=1.0):
    h = np.tanh(x @ params["w"] + params["b"])
    return {"loss": np.mean(h**2) * scale, "hidden": (h,)}


PARAMS = {"w": np.linspace(-1, 1, 6).reshape(3, 2), "b": np.array([0.1, -0.2])}
X = np.linspace(0, 1, 12).reshape(4, 3)


@pytest.mark.numpy_backend
def test_a_loaded_function_is_called_differentiated_batched_and_jitted(path):
    found = again(fg.export(model)(PARAMS, X, scale=2.0), path)
    assert isinstance(found, Exported) and found.names == (
        "params['b']",
        "params['w']",
        "x",
        "scale",
    )
    want, have = model(PARAMS, X, scale=2.0), found(PARAMS, X, scale=2.0)
    assert same(want["loss"], have["loss"]) and same(want["hidden"], have["hidden"])

    def loss(f):
        return lambda p, x: f(p, x, scale=2.0)["loss"]

    for transform in (
        fg.grad, fg.jacfwd, fg.hessian, fg.jit,
        lambda f: fg.vmap(fg.grad(f), in_axes=({"w": 0, "b": None}, None)),
    ):  # fmt: skip
        batch = {"w": np.stack([PARAMS["w"], 2 * PARAMS["w"]]), "b": PARAMS["b"]}
        args = (PARAMS if transform in (fg.grad, fg.jacfwd, fg.hessian, fg.jit) else batch, X)
        want, have = transform(loss(model))(*args), transform(loss(found))(*args)
        for a, b in zip(fg.tree_leaves(want), fg.tree_leaves(have), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)
    fg.testing.check_grads(loss(found), (PARAMS, X), order=2)


def test_results_are_the_callers_own(path):
    constant = np.ones(3)
    found = again(fg.export(lambda x: (x, constant, np.transpose(x)))(np.zeros(3)), path)
    x = np.zeros(3)
    for result in found(x):
        result[0] = 7.0
    assert x[0] == 0.0 and found(x)[1][0] == 1.0


OTHER = """
import sys, pickle, numpy as np, fungrad as fg
path = sys.argv[1]
found = fg.load(path) if path.endswith("fungrad") else pickle.load(open(path, "rb"))
params = {"w": np.linspace(-1, 1, 6).reshape(3, 2), "b": np.array([0.1, -0.2])}
x = np.linspace(0, 1, 12).reshape(4, 3)
loss = lambda p: found(p, x, scale=2.0)["loss"]
batched = fg.vmap(lambda x: found(params, x, scale=2.0)["loss"])(np.stack([x, x]))
print(float(loss(params)).hex(), float(fg.grad(loss)(params)["w"].sum()).hex(), batched.shape)
"""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["fungrad", "pickle"])
def test_another_process_loads_calls_differentiates_and_maps(form, tmp_path):
    exported = fg.export(model)(PARAMS, X, scale=2.0)
    path = tmp_path / f"x.{form}"
    if form == "fungrad":
        exported.save(path)
    else:
        path.write_bytes(pickle.dumps(exported))
    done = subprocess.run(
        [sys.executable, "-c", OTHER, str(path)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    gradient = fg.grad(lambda p: exported(p, X, scale=2.0)["loss"])(PARAMS)["w"].sum()
    want = float(exported(PARAMS, X, scale=2.0)["loss"]).hex()
    assert done.stdout.split() == [want, float(gradient).hex(), "(2,)"]


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Layer:
    weight: Any
    name: str = field(default="layer", metadata={"static": True})


def test_trees_of_all_containers_come_back(path):
    tree = {
        "list": [1.0, (2.0, None)],
        "ordered": OrderedDict(z=1.0, a=2.0),
        "default": defaultdict(list, k=3.0),
        "pair": Pair(1.0, [2.0]),
        "layer": Layer(3.0, "named"),
        ("a", 1): 4.0,
        2: 5.0,
    }
    found = again(fg.export(lambda t: t)(tree), path)
    assert found(tree) == tree and found.inputs == fg.tree_structure(((tree,), {}))


def test_a_container_that_is_not_known_here_is_named(path, monkeypatch):
    fg.save(fg.export(lambda t: t.a)(Pair(1.0, 2.0)), path)
    monkeypatch.setattr(sys.modules[__name__], "Pair", None)
    with pytest.raises(SavedFileError, match="container Pair of the module test_saving"):
        fg.load(path)


def test_numbers_and_arrays_fit_or_the_error_says_what_was_traced():
    found = fg.export(lambda x, n: x * n)(np.zeros(3, np.float32), 2.0)
    assert found(np.ones(3, np.float32), 3).dtype == np.float32  # a Python number stays one
    assert fg.vmap(found, in_axes=(None, 0))(np.ones(3, np.float32), np.ones(4)).shape == (4, 3)
    assert fg.grad(lambda n: np.sum(found(np.ones(3, np.float32), n)))(np.float64(2.0)) == 3.0
    for wrong in (np.ones(4, np.float32), np.ones(3), 1j):
        with pytest.raises(ArgumentError, match=r"argument x .* traced for f32\[3\]"):
            found(wrong, 2.0)
    with pytest.raises(ArgumentError, match="argument n"):
        found(np.ones(3, np.float32), "two")
    with pytest.raises(StructureMismatchError):
        found(np.ones(3, np.float32))


# -- refusals --------------------------------------------------------------------------------------


@fg.custom_vjp
def cube(x):
    return x**3


cube.defvjp(lambda x: (x**3, x), lambda x, ct: (3.0 * x**2 * ct,))


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (cube, "`rule` of the equation `custom` at .*cube"),
        (lambda x: fg.jit(cube)(x), "`rule` of the equation `custom` at "),
        (lambda x: fg.pure_callback(np.sin, x, x), "`host` of the equation `external`"),
        (lambda x: fg.debug.print("{}", x), "`host` of the equation `debug_callback`"),
    ],
)
def test_what_only_python_has_is_refused_with_name_and_line(f, words, path):
    def called(x):
        return (f(x), x)[1] if words.endswith("`debug_callback`") else f(x)

    with pytest.raises(ArgumentError, match=words):
        fg.save(fg.make_jaxpr(called)(1.0), path)
    assert not path.exists()


def test_closed_over_traced_values_are_refused(path):
    def f(x):
        graph = fg.make_jaxpr(lambda y: x * y)(1.0)
        with pytest.raises(ArgumentError, match="a traced value of type f64"):
            fg.save(graph, path)
        with pytest.raises(ArgumentError, match="closes over a traced value"):
            fg.export(lambda y: x * y)(1.0)
        return x

    fg.grad(f)(1.0)


def test_save_takes_graphs_and_exported_functions_only(path):
    with pytest.raises(ArgumentError, match=r"fg\.save\(fg\.export\(f\)\(\*args\), path\)"):
        fg.save(model, path)
    with pytest.raises(ArgumentError, match=r"graph\.save\(path\)"):
        fg.save(fg.make_jaxpr(np.sin)(1.0), path.with_suffix(".html"))


# -- reading ---------------------------------------------------------------------------------------


def rewritten(path, change):
    """The file with its JSON changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    content = json.loads(members["graph.json"])
    change(content)
    members["graph.json"] = json.dumps(content).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def first_equation(content):
    return content["graphs"][0]["equations"][0]


def set_in(place, **values):
    return lambda content: place(content).update(values)


def test_a_file_may_name_the_tape_of_a_pullback_as_older_ones_do(path):
    def newton(a):
        return fg.lax.while_loop(lambda x: x * x > a, lambda x: 0.5 * (x + a / x) - 0.01, 2.0 * a)

    def older(content):
        for graph in content["graphs"]:
            for equation in graph["equations"]:
                if "taped" in equation["params"]:
                    equation["params"]["trailed"] = equation["params"].pop("taped")
                    renamed.append(equation)

    renamed: list[Any] = []
    fg.save(fg.export(fg.grad(newton))(2.0), path)
    rewritten(path, older)
    assert renamed and fg.load(path)(2.0) == fg.grad(newton)(2.0)


BAD = {
    r"version is 2, and this fungrad reads version 1": set_in(lambda c: c, version=2),
    r"its format is 'other'": set_in(lambda c: c, format="other"),
    r"primitive 'sine' of the module 'fungrad\.primitives\.elementwise\.ufuncs'": set_in(
        first_equation, primitive=["fungrad.primitives.elementwise.ufuncs", "sine"]
    ),
    r"module 'fungrad\.nothing', which is not declared here": set_in(
        first_equation, primitive=["fungrad.nothing", "nothing"]
    ),
    r"module 'antigravity', which is not declared here": set_in(
        first_equation, primitive=["antigravity", "fly"]
    ),
    r"module 'fungrad\.__main__', which is not declared": set_in(
        first_equation, primitive=["fungrad.__main__", "main"]
    ),
    r"the kind 'pickle', which is not known": set_in(first_equation, params={"x": {"pickle": ""}}),
    r"names the item 99 of": set_in(first_equation, inputs=[99]),
    r"names the item -1 of": set_in(first_equation, outputs=[-1]),
    r"before it is defined": set_in(first_equation, inputs=[1]),
    r"declares its outputs as": lambda c: c["graphs"][0]["types"].__setitem__(1, ["<f4", [3], 0]),
    r"is not a numeric dtype": lambda c: c["graphs"][0]["types"].__setitem__(1, ["<U4", [3], 0]),
    r"has no dtype 'what'": lambda c: c["graphs"][0]["types"].__setitem__(1, ["what", [3], 0]),
    r"a shape is written as \[-3\]": lambda c: c["graphs"][0]["types"].__setitem__(
        1, ["<f8", [-3], 0]
    ),
    r"it is not a file that fg\.save wrote, or it is damaged \(KeyError": lambda c: c.pop("graphs"),
    r"different numbers of leaves": set_in(lambda c: c, names=["a", "b"]),
}


@pytest.mark.parametrize("words", BAD)
def test_wrong_content_is_refused_with_its_cause(words, path):
    fg.save(fg.export(lambda x: np.sin(x))(np.ones(3)), path)
    rewritten(path, BAD[words])
    with pytest.raises(SavedFileError, match=words):
        fg.load(path)
    assert "antigravity" not in sys.modules and "fungrad.__main__" not in sys.modules


def test_longdoubles_of_another_format_are_not_misread(path):
    fg.save(fg.make_jaxpr(np.sin)(np.longdouble(1)), path)
    rewritten(path, set_in(lambda c: c, longdouble=112))
    if np.finfo(np.longdouble).nmant != 112:
        with pytest.raises(SavedFileError, match=r"float128, whose format .*112 bits"):
            fg.load(path)


def test_arrays_of_objects_are_never_unpickled(path, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "touched"), "w"))

    fg.save(fg.make_jaxpr(lambda x: x + np.arange(3.0))(np.ones(3)), path)
    with zipfile.ZipFile(path) as archive:
        text = archive.read("graph.json")
    np.save(tmp_path / "evil.npy", np.array([Evil()], object), allow_pickle=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("graph.json", text)
        archive.write(tmp_path / "evil.npy", "0.npy")
    with pytest.raises(SavedFileError, match="allow_pickle=False"):
        fg.load(path)
    assert not (tmp_path / "touched").exists()


def test_damaged_files_are_refused(path, tmp_path):
    fg.save(fg.export(model)(PARAMS, X), path)
    whole = path.read_bytes()
    for data in (b"", b"hello", whole[:50], whole[: len(whole) // 2], whole[:-30], b"PK\3\4" * 20):
        path.write_bytes(data)
        with pytest.raises(SavedFileError, match=r"'x\.fungrad' cannot be loaded"):
            fg.load(path)
    np.savez(tmp_path / "weights.npz", w=np.ones(3))
    with pytest.raises(SavedFileError, match=r"not a file that fg\.save wrote"):
        fg.load(tmp_path / "weights.npz")
    with pytest.raises(FileNotFoundError):
        fg.load(tmp_path / "missing.fungrad")


def places(value, path=()):
    """The paths to all values inside of JSON."""
    yield path
    if not isinstance(value, (dict, list)):
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from places(item, (*path, key))


@pytest.mark.slow
def test_any_change_of_the_content_gives_a_graph_or_a_clear_error(path):
    double = fg.jit(lambda x: x[..., 0] * 2.0 + np.arange(3.0))
    fg.save(fg.export(lambda p: double(p["x"]).sum())({"x": np.ones((3, 2))}), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    content = json.loads(members["graph.json"])
    dice = random.Random(0)
    outcomes = {"loaded": 0, "refused": 0}
    for where in [p for p in places(content) if p]:
        for new in dice.sample([None, -1, 10**6, 1.5, "x", [], {}, [[]], {"tuple": [0]}, True], 3):
            changed = json.loads(members["graph.json"])
            inner = changed
            for key in where[:-1]:
                inner = inner[key]
            inner[where[-1]] = new
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("graph.json", json.dumps(changed))
                for name in members.keys() - {"graph.json"}:
                    archive.writestr(name, members[name])
            try:
                fg.load(path)
                outcomes["loaded"] += 1
            except SavedFileError:
                outcomes["refused"] += 1
    assert outcomes["refused"] > outcomes["loaded"] > 0  # names and scopes may be anything


@pytest.mark.slow
def test_a_primitive_of_your_own_is_found_once_it_is_declared(tmp_path):
    (tmp_path / "mine_for_saving.py").write_text(
        "import numpy as np\nfrom fungrad.extend import elementwise\n"
        "twice = elementwise('twice', lambda x: 2 * x, partials=[lambda ct, y, x: 2.0 * ct])\n"
    )
    assert extend is not None
    load = "import sys, fungrad as fg; f = fg.load(sys.argv[1]); print(float(f(1.5)))"
    save = (
        "import sys, fungrad as fg, mine_for_saving as m;"
        "fg.save(fg.export(m.twice)(1.0), sys.argv[1])"
    )

    def run(program):
        return subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "f.fungrad")],
            capture_output=True, text=True, cwd=tmp_path,
        )  # fmt: skip

    assert run(save).returncode == 0
    assert "import the module that declares it first" in run(load).stderr
    assert run("import mine_for_saving;" + load).stdout.strip() == "3.0"


def test_errors_of_saving_are_fungrads():
    assert issubclass(SavedFileError, FungradError) and issubclass(SavedFileError, ValueError)
    assert importlib.import_module("fungrad.serialisation.archive").load is fg.load


# -- files from strangers --------------------------------------------------------------------------


def nest(levels):
    """A function whose Graph has an inner Graph for each level, read twice by the next one."""
    f = fg.jit(np.sin)
    for _ in range(levels):
        f = fg.jit(lambda x, f=f: f(f(x)))
    return f


def test_shared_inner_graphs_are_looked_at_once(path, monkeypatch):
    looked = []
    check = ir_check._check
    monkeypatch.setattr(ir_check, "_check", lambda graph: (looked.append(1), check(graph)))
    exported = fg.export(nest(40))(1.0)
    assert len(looked) < 5000  # that of each level when it is traced, with those inside; not 2**40
    del looked[:]
    fg.save(exported, path)
    found = fg.load(path)
    assert len(looked) < 200 and path.stat().st_size < 3000
    assert len(found.graph.equations) == 1


@pytest.mark.slow
def test_what_is_unpacked_has_a_limit_that_can_be_raised(path):
    constant = np.zeros(10**7)
    fg.save(fg.make_jaxpr(lambda x: x + constant)(1.0), path)
    assert path.stat().st_size < 10**5
    with pytest.raises(SavedFileError, match=r"unpacks to more than \d{8} bytes.*max_bytes="):
        fg.load(path)
    assert len(fg.load(path, max_bytes=10**8).equations) == 1
    with pytest.raises(SavedFileError, match="more than 1000 bytes"):
        fg.load(path, max_bytes=1000)
    incompressible = np.random.default_rng(0).integers(0, 2**62, 10**6)
    fg.save(fg.make_jaxpr(lambda x: x + incompressible)(1.0), path)
    fg.load(path)


def test_an_array_that_claims_more_than_is_there_allocates_nothing(path):
    fg.save(fg.make_jaxpr(lambda x: x + np.arange(3.0))(np.ones(3)), path)
    parts = damage.members(path.read_bytes())
    for shape in (b"(99999999999,)", b"(-3,)", b"(4,)", b"(2,)"):
        bad = parts["0.npy"].replace(b"(3,)", shape).replace(b" " * (len(shape) - 4), b"", 1)
        path.write_bytes(damage.packed({**parts, "0.npy": bad}))
        with pytest.raises(SavedFileError, match=r"takes .* bytes, but has 24|damaged"):
            fg.load(path)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (2, 3), (3, 2, 2)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_all_shapes_and_orders_come_back(shape, order, path):
    constant = np.asarray(np.random.default_rng(0).normal(size=shape), order=order)
    fg.save(fg.make_jaxpr(lambda x: x * constant)(np.ones(shape)), path)
    np.testing.assert_array_equal(fg.evaluate(fg.load(path), np.ones(shape))[0], constant)


@pytest.mark.slow
def test_every_damage_is_answered_by_one_error():
    rng = random.Random(0)
    originals = damage.files()
    assert {damage.answer(data) for data in originals} == {"loaded"}
    damaged = damage.every_byte(originals[0], rng)
    damaged += [damage.mutant(rng.choice(originals), rng) for _ in range(1500)]
    answers = collections.Counter(map(damage.answer, damaged))
    assert set(answers) == {"loaded", "SavedFileError"}, answers
    assert answers["SavedFileError"] > answers["loaded"]


@pytest.mark.parametrize(
    "text", [b"[" * 10**5, b'{"a":' * 10**5, b"9" * 10**5, b"\xff", b"", b"null", b"[]", b"{}"]
)
def test_json_that_is_none_of_ours(text, path):
    path.write_bytes(damage.packed({"graph.json": text}))
    with pytest.raises(SavedFileError):
        fg.load(path)


class Dense(NamedTuple):
    weights: Any
    bias: Any


def test_trees_come_back_as_they_were(path):
    tree = {
        "layers": [Dense(np.arange(6.0).reshape(2, 3), np.float32(2.5)), None, ("tanh", 1, True)],
        "state": OrderedDict(count=np.zeros((), np.int64), rate=0.1, c=1j, far=float("inf")),
        "none": np.zeros((0, 3), np.float16),
        "columns": np.asfortranarray(np.arange(4).reshape(2, 2)),
    }
    fg.save_tree(tree, path)
    found = fg.load_tree(path)
    assert fg.tree_structure(found) == fg.tree_structure(tree)
    for got, leaf in zip(fg.tree_leaves(found), fg.tree_leaves(tree), strict=True):
        assert same(got, leaf)
    found["layers"][0].weights[0, 0] = 7.0  # writable
    with open(path, "rb") as file:
        assert fg.load_tree(file)["layers"][2] == ("tanh", 1, True)


def test_a_training_run_goes_on_from_its_checkpoint(path):
    optimizer = fg.optimizers.adam(0.1)

    def steps(params, state, count):
        for _ in range(count):
            updates, state = optimizer.update(fg.tree_map(np.cos, params), state, params)
            params = fg.optimizers.apply_updates(params, updates)
        return params, state

    start = {"w": np.linspace(0.0, 1.0, 4)}
    expected, _ = steps(start, optimizer.init(start), 6)
    fg.save_tree(steps(start, optimizer.init(start), 3), path)
    found, _ = steps(*fg.load_tree(path), 3)
    np.testing.assert_array_equal(found["w"], expected["w"])


def test_what_a_tree_file_cannot_hold(path):
    with pytest.raises(ArgumentError, match=r"leaf \['f'\] cannot be saved: it is"):
        fg.save_tree({"f": np.sin.__call__, "x": 1.0}, path)
    assert list(path.parent.iterdir()) == []
    with pytest.raises(ArgumentError, match="array of object"):
        fg.save_tree([np.array([None])], path)


def test_a_file_is_read_by_the_function_that_its_kind_wants(path):
    fg.save_tree([1.0], path)
    with pytest.raises(SavedFileError, match=r"holds a tree: read it by fg\.load_tree"):
        fg.load(path)
    fg.save(fg.export(np.sin)(1.0), path)
    with pytest.raises(SavedFileError, match=r"holds a function: read it by fg\.load"):
        fg.load_tree(path)
    path.write_bytes(b"nothing")
    with pytest.raises(SavedFileError, match="damaged"):
        fg.load_tree(path)


def test_a_file_stays_whole_while_it_is_written_again(path, monkeypatch):
    fg.save_tree([1.0], path)

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="no space"):
        fg.save_tree([2.0], path)
    monkeypatch.undo()
    assert fg.load_tree(path) == [1.0] and list(path.parent.iterdir()) == [path]


def test_threads_write_one_file_at_once(path, monkeypatch):
    both = threading.Barrier(2, timeout=60.0)
    write = archive._write_members

    def written(*args):
        write(*args)
        both.wait()

    monkeypatch.setattr(archive, "_write_members", written)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda k: fg.save_tree({"a": k}, path), [1.0, 1.0]))
    assert fg.load_tree(path) == {"a": 1.0}
