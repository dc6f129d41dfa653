"""docs/errors.md is complete and true; tracebacks show the user's frames and not ours."""

from __future__ import annotations

import importlib
import math
import os
import re
import subprocess
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest
from refusals import CLASSES, DOCS, X

import fungrad as fg
import fungrad.testing
from fungrad import errors
from fungrad.compiler import captured_state
from fungrad.primitives.primitive import primitives

# --- the documentation ----------------------------------------------------------------


def entries():
    """The two programs of each entry of docs/errors.md, by class name."""
    parts = re.split(r"^## (\w+)$", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {
        name: re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def test_every_class_has_an_entry_and_every_entry_a_class():
    assert sorted(entries()) == sorted(CLASSES)
    assert all(len(programs) == 2 for programs in entries().values())


def test_every_class_shows_its_programs_in_its_docstring():
    for name, class_ in CLASSES.items():
        assert class_.__doc__, name
        if class_ is not errors.FungradError:
            assert "Fails" in class_.__doc__ and "Repaired" in class_.__doc__, name


@pytest.fixture
def clean(monkeypatch):
    """Restores the registry and the imported modules after the programs."""
    known, backend = dict(primitives), fg.config.backend
    monkeypatch.delenv("FUNGRAD_STRICT")
    for name in ("hypothesis", "hypothesis.strategies"):
        monkeypatch.setitem(sys.modules, name, importlib.import_module(name))
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.RetraceWarning)
        warnings.simplefilter("error", errors.CapturedStateWarning)
        warnings.simplefilter("error", errors.DensePatternWarning)
        warnings.simplefilter("error", errors.MiscompiledWarning)
        warnings.simplefilter("error", errors.OpaqueCallWarning)
        warnings.simplefilter("error", errors.CompilerWarning)
        yield
    fg.config.backend, fg.config.verify_tracing = backend, "foreign"
    primitives.clear()
    primitives.update(known)


def run(program):
    exec(
        compile(program, "<docs/errors.md>", "exec"),
        {"np": np, "fg": fg, "math": math, "x": X.copy()},
    )


@pytest.mark.parametrize("name", CLASSES)
def test_the_failing_program_fails_as_it_says(name, clean):
    with pytest.raises(CLASSES[name]) as info:
        run(entries()[name][0])
    assert type(info.value) is CLASSES[name] or name == "FungradError"


@pytest.mark.parametrize("name", CLASSES)
def test_the_repaired_program_works(name, clean, capsys):
    run(entries()[name][1])
    assert "Traceback" not in capsys.readouterr().out


# --- the page of common mistakes ------------------------------------------------------

MISTAKES = (DOCS.parent / "mistakes.md").read_text(encoding="utf-8")
CELL = re.compile(r"``(.+?) ?``|`(.+?)`")


def rows():
    """The cells of each row: a program, the message (None without one), the right program."""
    for line in MISTAKES.splitlines():
        if line.startswith("| `"):
            wrong, said, right = (cell.strip() for cell in line.strip("|").split(" | "))
            found = CELL.fullmatch(said)
            code = [CELL.fullmatch(cell)[2] for cell in (wrong, right)]
            yield pytest.param(code[0], found and (found[1] or found[2]), code[1], id=code[0])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("wrong", "said", "right"), list(rows()))
def test_a_mistake_is_answered_and_the_advice_works(wrong, said, right, capsys):
    pytest.importorskip("scipy")
    names = {}
    exec(re.search(r"^```python\n(.*?)^```$", MISTAKES, re.MULTILINE | re.DOTALL)[1], names)
    if said is None:
        exec(wrong, names)
    else:
        with pytest.raises(Exception) as info:
            exec(wrong, names)
        notes = getattr(info.value, "__notes__", [])
        assert said in "\n".join([str(info.value), *notes])
    exec(right, names)


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("AbstractBooleanError", TypeError),
        ("NonScalarOutputError", TypeError),
        ("ShapeError", ValueError),
        ("LeakedTracerError", RuntimeError),
        ("MissingRuleError", NotImplementedError),
        ("MissingExtraError", ImportError),
        ("GradientCheckError", AssertionError),
        ("BatchAxisError", ValueError),
        ("ItemAssignmentError", TypeError),
    ],
)
def test_errors_are_also_the_builtin_ones_that_fit(name, builtin):
    assert issubclass(CLASSES[name], builtin)


# --- tracebacks -----------------------------------------------------------------------


def files_of(error):
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


PACKAGE = os.path.dirname(fg.__file__) + os.sep


def failing(x):
    return fg.vmap(lambda v: 1.0 if v > 2 else 2.0)(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda: fg.grad(failing)(X),
        lambda: fg.vjp(failing, X),
        lambda: fg.jvp(failing, (X,), (X,)),
        lambda: fg.vmap(failing)(np.ones((2, 3)) * np.arange(1.0, 4.0)),
        lambda: fg.make_jaxpr(failing)(X),
        lambda: fg.eval_shape(failing, X),
        lambda: fg.grad(lambda x: 1 / 0)(1.0),
    ],
)
def test_fungrads_own_frames_are_dropped(call, monkeypatch):
    monkeypatch.delenv("FUNGRAD_TRACEBACK", raising=False)
    with pytest.raises(Exception) as short:
        call()
    ours = [name for name in files_of(short.value) if name.startswith(PACKAGE)]
    assert len(ours) <= 1  # the last boundary, which raises it
    assert __file__ in files_of(short.value)
    monkeypatch.setenv("FUNGRAD_TRACEBACK", "full")
    with pytest.raises(Exception) as full:
        call()
    assert sum(name.startswith(PACKAGE) for name in files_of(full.value)) > 2
    assert type(full.value) is type(short.value)


@pytest.mark.parametrize(
    ("broken", "setting", "kept"),
    [(True, "0", True), (True, "1", True), (False, "0", False), (False, "1", True)],
)
def test_a_defect_of_fungrads_keeps_its_frames(broken, setting, kept, monkeypatch):
    monkeypatch.delenv("FUNGRAD_TRACEBACK", raising=False)
    monkeypatch.setenv("FUNGRAD_STRICT", setting)
    if broken:  # a NameError, which no argument explains; else a TypeError, as of NumPy
        monkeypatch.delattr(captured_state, "codes")
    else:
        monkeypatch.setattr(captured_state, "codes", None)
    with pytest.raises(NameError if broken else TypeError) as found:
        fg.jit(lambda x: x * 2.0)(X)
    assert any(name == captured_state.__file__ for name in files_of(found.value)) is kept


def test_what_a_user_sees_on_the_terminal(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nimport fungrad as fg\n\n"
        "def model(x):\n    if x > 0:\n        return x\n    return -x\n\n"
        "fg.vmap(model)(np.arange(3.0))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(fg.__file__).parents[1])}
    env.pop("FUNGRAD_TRACEBACK", None)
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, env=env)
    assert result.returncode == 1
    assert f'File "{script}", line 5, in model' in result.stderr
    assert "AbstractBooleanError: bool() needs one value" in result.stderr
    assert result.stderr.count("During handling") == 0
    assert result.stderr.count(os.sep + "fungrad" + os.sep) <= 1


def test_no_warning_is_raised_on_the_way():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fg.grad(lambda x: np.where(x > 0, np.sqrt(np.abs(x)), 0.0))(0.5)
