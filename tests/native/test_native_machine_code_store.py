"""Files of machine code: which are stored, refused, and removed."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llvmlite")

from fungrad.compiler.native import machine_code
from fungrad.compiler.native.llvm_ir import Function, Module
from fungrad.compiler.native.machine_code import Store, build, opened

KEY = "0" * 64
OTHER = "1" * 64
posix = pytest.mark.skipif(os.name == "nt", reason="owners and modes")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "deep" / "cache")


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of this process."""
    monkeypatch.setenv("FUNGRAD_CACHE_DIR", str(tmp_path / "chosen"))
    monkeypatch.delenv("FUNGRAD_CACHE", raising=False)
    opened.cache_clear()
    yield tmp_path / "chosen" / "native"
    opened.cache_clear()


def seven(number: int = 7) -> Module:
    module = Module()
    code = Function(module, "seven", "i64", [])
    code.ret(code.constant(number, "i64"))
    return module


def of_seven(number: int = 7) -> int:
    built = build(seven(number))
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(built.address("seven"))())


def test_the_memory_of_programs_in_cycles_is_freed_under_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from llvmlite.binding.orcjit import ResourceTracker

    built = build(seven(1_234))
    name, held, close = built._library.name, [], ResourceTracker.close

    def watched(library: Any) -> None:
        if not library.closed and library.name == name:
            held.append(machine_code.session.lock._is_owned())
        close(library)

    monkeypatch.setattr(ResourceTracker, "close", watched)
    built.itself = built  # type: ignore[attr-defined]
    del built
    gc.collect()
    machine_code.session.free()
    assert held == [True]


def file(store: Store) -> Path:
    return store.folder / f"{KEY}.o"


def test_code_is_found_again(store: Store) -> None:
    assert store.read(KEY) is None
    store.write(KEY, b"code")
    assert store.read(KEY) == b"code" and store.read(OTHER) is None
    store.write(KEY, b"other code")
    assert Store(store.folder).read(KEY) == b"other code"


@posix
def test_folders_and_files_are_closed_to_others(store: Store) -> None:
    before = os.umask(0)
    try:
        fresh = Store(store.folder / "fresh")
        fresh.write(KEY, b"code")
    finally:
        os.umask(before)
    assert fresh.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in fresh.folder.iterdir()} == {0o600}


@pytest.mark.parametrize("damage", ["truncated", "empty", "changed", "renamed", "longer"])
def test_damaged_and_foreign_files_are_not_believed(store: Store, damage: str) -> None:
    store.write(KEY, b"some machine code")
    store.write(OTHER, b"of another program")
    data = file(store).read_bytes()
    changed = {
        "truncated": data[:-1],
        "empty": b"",
        "changed": data[:-1] + b"x",
        "renamed": (store.folder / f"{OTHER}.o").read_bytes(),
        "longer": data + b"x",
    }
    file(store).write_bytes(changed[damage])
    assert store.read(KEY) is None
    store.write(KEY, b"some machine code")
    assert store.read(KEY) == b"some machine code"


@posix
def test_what_others_can_write_is_not_believed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(KEY, b"code")
    file(store).chmod(0o620)
    assert store.read(KEY) is None
    file(store).chmod(0o600)
    assert store.read(KEY) == b"code"
    target = store.folder / "elsewhere"
    file(store).rename(target)
    file(store).symlink_to(target)
    assert store.read(KEY) is None
    store.write(KEY, b"code")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert store.read(KEY) is None
    with pytest.raises(PermissionError, match="not a folder for this user alone"):
        Store(store.folder)


@posix
def test_a_folder_that_is_open_to_others_is_not_used(chosen: Path) -> None:
    chosen.mkdir(parents=True)
    chosen.chmod(0o755)
    with pytest.warns(RuntimeWarning, match=r"mode 0700.*FUNGRAD_CACHE_DIR"):
        assert of_seven() == 7
    assert of_seven(8) == 8  # and it says so once
    assert not list(chosen.iterdir())


def test_a_folder_that_cannot_be_made(chosen: Path) -> None:
    chosen.parent.write_text("a file")
    with pytest.warns(RuntimeWarning, match="stores no machine code"):
        assert of_seven() == 7


def test_calls_run_where_warnings_are_errors(
    chosen: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    chosen.parent.write_text("a file")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert of_seven() == 7 and of_seven(8) == 8
    assert capfd.readouterr().err.count("stores no machine code") == 1


def test_a_process_of_errors_without_a_home(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file, no folder")
    code = """
import numpy as np, fungrad as fg
fg.config.backend = "native"
for k in range(3):
    f = fg.jit(lambda x: np.sum(np.sin(x) * k))
    assert abs(f(np.ones(9000)) - 9000 * k * np.sin(1.0)) < 1e-8
    assert f.lower(np.ones(9000)).native
"""
    env = {k: v for k, v in os.environ.items() if k not in ("FUNGRAD_CACHE", "FUNGRAD_CACHE_DIR")}
    home = str(tmp_path / "home" / "folder")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**env, "HOME": home, "XDG_CACHE_HOME": home, "LOCALAPPDATA": home},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("stores no machine code") == 1


def test_programs_come_from_the_store(chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_seven(7) == 7 and of_seven(8) == 8
    assert len(list(chosen.glob("*.o"))) == 2
    made: list[Module] = []
    monkeypatch.setattr(machine_code, "object_code", lambda m, t: made.append(m))
    assert of_seven(7) == 7 and of_seven(8) == 8 and not made


def test_it_can_be_turned_off(chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUNGRAD_CACHE", "0")
    assert of_seven() == 7 and opened() is None and not chosen.exists()


def test_a_full_disk_is_no_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    store.write(KEY, b"code")
    assert store.read(KEY) is None and not list(store.folder.glob("*.o*"))


def test_old_files_and_too_many_are_removed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "LARGEST", 1000)
    now = time.time()
    for n, age in enumerate([0.0, 1.0, 2.0, 100.0]):
        key = str(n) * 64
        store.write(key, b"x" * 300)
        os.utime(store.folder / f"{key}.o", (now - age * 86_400,) * 2)
    (store.folder / "notes.txt").write_text("not ours")
    store.prune()
    assert [store.read(str(n) * 64) is not None for n in range(4)] == [True, True, True, False]
    assert store.folder.joinpath(f"{2}" * 64 + ".o").stat().st_mtime > now - 10  # it was read
    os.utime(store.folder / ("1" * 64 + ".o"), (now - 86_400 * 5,) * 2)
    store.write("4" * 64, b"x" * 300)
    store.prune()
    assert [store.read(str(n) * 64) is not None for n in range(5)] == [
        True, False, True, False, True,
    ]  # fmt: skip
    assert (store.folder / "notes.txt").exists()


def test_pruning_happens_once_a_day(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    monkeypatch.setattr(Store, "prune", lambda self: done.append(1))
    store.write(KEY, b"code")
    store.write(OTHER, b"code")
    assert len(done) == 1
    os.utime(store.folder / "pruned", (time.time() - 90_000,) * 2)
    store.write(KEY, b"code")
    assert len(done) == 2


def test_two_writers_leave_a_whole_file(store: Store) -> None:
    codes = [bytes([n]) * 200_000 for n in range(4)]
    seen = set()

    def write(code: bytes) -> None:
        for _ in range(20):
            store.write(KEY, code)
            seen.add(store.read(KEY))

    writers = [threading.Thread(target=write, args=(code,)) for code in codes]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert seen <= set(codes) and sorted(p.name for p in store.folder.iterdir()) == [
        f"{KEY}.o", "pruned",
    ]  # fmt: skip


@pytest.mark.slow
def test_another_process_finds_it(chosen: Path) -> None:
    script = """
import os, sys; sys.path[:0] = sys.argv[1].split(os.pathsep)
from fungrad.compiler.native import machine_code as s
from test_native_machine_code_store import of_seven
make, made = s.object_code, []
s.object_code = lambda m, t: made.append(1) or make(m, t)
print(of_seven(), len(made))
"""
    here = os.pathsep.join(sys.path)
    processes = [
        subprocess.Popen([sys.executable, "-c", script, here], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert all(p.communicate()[0].split()[0] == "7" for p in processes)
    again = subprocess.run(
        [sys.executable, "-c", script, here], capture_output=True, text=True, check=True
    )
    assert again.stdout == "7 0\n"
