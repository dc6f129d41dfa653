"""Code for other systems and processors, as far as object files: formats and unresolved symbols.

Nothing of it runs here. What an object file refers to has to be something that fungrad defines on
that system, or that every process there has.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad.compiler.native import machine_code, threads
from fungrad.compiler.native.machine_code import Target, cache_folder
from fungrad.compiler.native.symbols import MICROSOFT, registered

TARGETS = {
    "x86_64-unknown-linux-gnu": ("x86-64", "", b"\x7fELF"),
    "x86_64-pc-windows-msvc": ("x86-64-v3", "+avx2,+fma,+f16c", b"\x64\x86"),
    "x86_64-apple-macosx": ("x86-64-v3", "+avx2,+fma,+f16c", b"\xcf\xfa\xed\xfe"),
    "aarch64-unknown-linux-gnu": ("generic", "+neon", b"\x7fELF"),
    "aarch64-pc-windows-msvc": ("generic", "+neon", b"\x64\xaa"),
    "arm64-apple-macosx14": ("apple-m1", "", b"\xcf\xfa\xed\xfe"),
}
LIBC = {"memcpy", "memset", "memmove", "clock"}


@pytest.fixture(scope="module")
def programs():
    """The IR of kernels over arrays, of loops and of calls, with their entries."""
    found: dict[str, None] = {}
    compiled = machine_code.object_code
    patch = pytest.MonkeyPatch()

    def noted(ir, target):
        found[ir] = None
        return compiled(ir, target)

    patch.setattr(machine_code, "object_code", noted)
    patch.setattr(machine_code, "opened", lambda: None)
    patch.setattr(fg.config, "backend", "native")
    x = np.linspace(0.1, 2.0, 5000)

    def steps(x):
        return np.sum(fg.lax.scan(lambda c, a: (np.tanh(c * a), c), x[:3], x[:40])[0])

    for f in (
        lambda x: np.sum(np.sin(x) * np.exp(-x) + x**1.5),
        steps,
        lambda x: np.sum(np.sin(x.astype(np.float16)) * np.fmod(x[::-1].astype(np.float16), 3)),
    ):
        fg.jit(fg.grad(f))(x)
    patch.undo()
    return list(found)


def unresolved(assembly: str) -> set[str]:
    """The functions that assembly text calls, or marks, and does not define."""
    calls = re.findall(r"^\s+(?:callq?|jmp|bl?)\s+\"?([A-Za-z_][\w.]*)", assembly, re.MULTILINE)
    marks = re.findall(r"^\s+\.globl\s+(\w+)(?![\w@])", assembly, re.MULTILINE)
    labels = set(re.findall(r"^\"?([\w.]+)\"?:", assembly, re.MULTILINE))
    return {name for name in (*calls, *marks) if not name.startswith("LBB")} - labels


@pytest.mark.slow
@pytest.mark.parametrize("triple", TARGETS)
def test_programs_are_compiled_for_other_systems(triple, programs):
    assert len(programs) >= 3
    processor, features, magic = TARGETS[triple]
    target = Target(processor, features, triple=triple)
    assert target.vector_bytes == (32 if "avx2" in features else 16)
    registered()
    known = {*machine_code.session._symbols, *LIBC}
    known |= {name for ir in programs for name in machine_code._EXPORTED.findall(ir)}
    if "windows" in triple:
        known |= set(MICROSOFT)
    found = set()
    halves = [ir for ir in programs if "half" in ir]
    assert halves and target.halves is ("f16c" in features or triple.startswith(("aarch", "arm")))
    for ir in programs:
        if ir in halves and not target.halves:
            continue
        assert machine_code.object_code(ir, target).startswith(magic)
        found |= unresolved(machine_code.assembly(ir, target))
    prefix = "_" if "apple" in triple else ""
    assert {name.removeprefix(prefix) for name in found} <= known
    if triple == "x86_64-pc-windows-msvc":
        assert "_fltused" in found


@pytest.mark.parametrize("triple", TARGETS)
def test_the_pool_and_the_check_of_signals_are_compiled_for_other_systems(triple):
    system = "win32" if "windows" in triple else "linux"
    target = Target(*TARGETS[triple][:2], triple=triple, quick=True)
    for text in (threads._POOL, threads._SIGNALS):
        ir = threads.of_system(text, system)
        assert "LONG" not in ir and "CLOCKS" not in ir
        assert ("i32 @PyThread_" in ir.replace("i32 @PyThread_acquire", "")) == (system == "win32")
        assert machine_code.object_code(ir, target)


def test_folders_for_caches_of_each_system(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    local = {"LOCALAPPDATA": str(tmp_path / "local")}
    assert cache_folder("win32", local) == tmp_path / "local" / "fungrad"
    assert cache_folder("win32", {}) == tmp_path / "AppData" / "Local" / "fungrad"
    assert cache_folder("linux", local) == tmp_path / ".cache" / "fungrad"
    assert cache_folder("darwin", {}) == tmp_path / "Library" / "Caches" / "fungrad"
    assert cache_folder("freebsd14", {}) == tmp_path / ".cache" / "fungrad"
    for system in ("win32", "linux", "darwin"):
        xdg = {**local, "XDG_CACHE_HOME": str(tmp_path / "xdg")}
        assert cache_folder(system, xdg) == tmp_path / "xdg" / "fungrad"
        assert cache_folder(system, {**xdg, "FUNGRAD_CACHE_DIR": "own"}) == Path("own")


def test_the_folder_of_this_process(monkeypatch, tmp_path):
    monkeypatch.setenv("FUNGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("FUNGRAD_CACHE", raising=False)
    machine_code.opened.cache_clear()
    store = machine_code.opened()
    machine_code.opened.cache_clear()
    assert store is not None and store.folder == tmp_path / "native"
    assert os.listdir(tmp_path) == ["native"]
