"""Compiles IR to machine code in memory, by a few cheap LLVM passes, and keeps it in files.

Vectors are explicit in the IR, so LLVM's loop vectoriser is not run. llvmlite is imported when the
first function is built. LLVM is for one thread at a time: `Session` has its linkers and a lock. IR
is written, and stored code is read, outside of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import itertools
import mmap
import os
import re
import stat
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from fungrad.compiler.native.llvm_ir import Module
from fungrad.support import forks

PASSES = ("sroa", "instruction_combine", "simplify_cfg", "new_gvn", "dead_code_elimination")
"""Passes in order: 1 to 8 ms per kernel; the standard pipeline takes 8 to 28 ms. Quick builds run
the first one alone.
"""
OLDEST = 90 * 86_400.0
"""Seconds after which a file that nobody has read is removed."""
LARGEST = 256_000_000
"""The most bytes of all files; beyond it the least recently read files are removed."""
_DAY = 86_400.0
_DIGEST = 32
_NAME = re.compile(r"[0-9a-f]{64}\.o(\.\d+)*")


class Target:
    """The machine that code is compiled for.

    Args:
      processor: its name in LLVM; by default this machine's.
      features: its features.
      quick: whether to compile in a third of the time, to slower code.
      triple: the system, as LLVM names it; by default this one. Code for others does not run here.

    Attributes:
      machine: llvmlite's TargetMachine.
      passes: the passes to run.
      name: LLVM's version, the processor and its features: code of another name does not run here.
      vector_bytes: the width of its widest registers.
      halves: whether it converts numbers between half and single precision.
    """

    def __init__(
        self, processor: str = "", features: str = "", quick: bool = False, triple: str = ""
    ) -> None:
        llvm = _llvm()
        if triple:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
        else:
            processor = processor or llvm.get_host_cpu_name()
            features = features or llvm.get_host_cpu_features().flatten()
        self.passes = PASSES[:1] if quick else PASSES
        self.vector_bytes = 64 if "+avx512f" in features else 32 if "+avx2" in features else 16
        if self.vector_bytes == 64:
            features += ",-prefer-256-bit"
        target = llvm.Target
        system = target.from_triple(triple) if triple else target.from_default_triple()
        self.halves = "+f16c" in features or system.name == "aarch64"
        self.machine = system.create_target_machine(
            processor,
            features,
            opt=0 if quick else 1,
            reloc="pic",
            codemodel="jitdefault",
            jit=True,
        )
        version = ".".join(map(str, llvm.llvm_version_info))
        self.name = f"{version} {processor} {features}{' quick' * quick}"


def _keep(object: Any) -> None:
    """Keeps an object of LLVM beyond the interpreter, whose end would free it when modules, and
    llvmlite's functions, are gone.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(object))


def _let_go(object: Any) -> None:
    """Undoes `_keep`."""
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(object))


class Linker:
    """A linker of LLVM, and its programs, whose memory it can reuse but not return as long as it
    lives. It outlives the interpreter, since threads may still run its programs.
    """

    def __init__(self) -> None:
        self._linker = _llvm().create_lljit_compiler(Target().machine)
        _keep(self)
        self._of_symbols: list[Any] = []
        """Libraries with the addresses of symbols."""
        self._known = 0
        """How many symbols they have."""
        self.programs = 0
        """How many of its programs are in memory."""

    def link(self, code: bytes, exported: Iterable[str], symbols: dict[str, int]) -> Any:
        """A library: an object file, linked to symbols, new ones of which are the last."""
        builder = _llvm().JITLibraryBuilder
        count = len(symbols)
        if self._known < count:
            known = builder()
            for name in itertools.islice(symbols, self._known, None):
                known.import_symbol(name, symbols[name])
            self._of_symbols.append(known.link(self._linker, f"symbols{next(_count)}"))
            self._known = count
        program = builder().add_object_img(code)
        for name in exported:
            program.export_symbol(name)
        for found in self._of_symbols:
            program.add_jit_library(found.name)
        # LLVM takes each name once, also if linking is interrupted.
        made = program.add_current_process().link(self._linker, f"program{next(_count)}")
        self.programs += 1
        return made

    def close(self) -> None:
        """Returns its memory; no program of it may be in use."""
        for library in self._of_symbols:
            library.close()
        self._linker.close()
        _let_go(self)


class Session:
    """LLVM in this process: its linkers, and the addresses that programs can name. All calls of
    LLVM hold `lock`; a fork waits for it.
    """

    def __init__(self) -> None:
        self.lock = forks.lock()
        self._symbols: dict[str, int] = {}
        self._linker: Linker | None = None
        """Links programs until `renew`."""
        self._lasting: Linker | None = None
        """Links what stays in memory."""
        self._dead: list[tuple[Any, Linker]] = []
        """Libraries of programs that died, and their linkers. A program may die anywhere, also in
        the midst of a call of LLVM, so its memory is freed later.
        """

    def link(self, code: bytes, exported: Iterable[str], lasting: bool = False) -> Built:
        """The functions of an object file, linked to the symbols of this process.

        Args:
          code: the object file.
          exported: the names of its functions and globals whose addresses are wanted.
          lasting: whether they stay in memory for the life of the process.
        """
        with self.lock:
            self.free()
            if lasting:
                linker = self._lasting = self._lasting or Linker()
            else:
                linker = self._linker = self._linker or Linker()
            library = linker.link(code, exported, self._symbols)
        _keep(library)
        built = Built(library)
        # Not __del__: where a program dies in a cycle, the garbage collector finalises the library
        # with it, and so calls LLVM without the lock.
        weakref.finalize(built, self._dead.append, (library, linker)).atexit = False
        return built

    def define(self, name: str, address: int) -> None:
        """Gives an address a name that IR can declare: code contains no addresses."""
        with self.lock:
            self._symbols[name] = address

    def free(self) -> None:
        """Frees the memory of dead programs, and of former linkers that have no other."""
        with self.lock:
            while self._dead:
                library, linker = self._dead.pop()
                library.close()
                _let_go(library)
                linker.programs -= 1
                if not linker.programs and linker is not self._linker:
                    linker.close()

    def renew(self) -> None:
        """Frees the memory of dead programs. The linker returns its own with its last program;
        another one links the next.
        """
        with self.lock:
            former, self._linker = self._linker, None
            if former is not None and not former.programs:
                former.close()
            self.free()
        give_back = getattr(ctypes.pythonapi, "malloc_trim", None)  # glibc keeps freed memory
        if give_back is not None:
            give_back(0)


session = Session()
symbol = session.define
F = TypeVar("F", bound=Callable[..., Any])


def once(function: F) -> F:
    """functools.cache for functions that change the session: a second thread waits for the first,
    so that none runs twice.
    """
    cached = functools.cache(function)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        with session.lock:
            return cached(*args)

    call.cache_clear = cached.cache_clear  # type: ignore[attr-defined]
    return cast(F, call)


@once
def host(quick: bool = False) -> Target:
    """The processor that runs this process."""
    return Target(quick=quick)


class Built:
    """Functions and globals in memory; they live as long as this object.

    Args:
      library: the library of LLVM's linker, with their addresses.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    def address(self, name: str) -> int:
        address: int = self._library[name]
        return address


def object_code(ir: str, target: Target) -> bytes:
    """The object file of a module's text."""
    with session.lock:
        code: bytes = target.machine.emit_object(_optimised(ir, target))
    return code


def assembly(ir: str, target: Target) -> str:
    """The assembly text of a module's text, after the passes."""
    with session.lock:
        text: str = target.machine.emit_assembly(_optimised(ir, target))
    return text


def loaded(code: bytes, ir: str, lasting: bool = False) -> Built:
    """The functions of an object file made of `ir`, linked to the symbols of this process."""
    return session.link(code, _EXPORTED.findall(ir), lasting)


def _optimised(ir: str, target: Target) -> Any:
    """LLVM's module of some IR: verified, since malformed IR ends the process, and optimised."""
    llvm = _llvm()
    parsed = llvm.parse_assembly(ir, llvm.create_context())  # a shared one keeps all constants
    parsed.verify()
    builder = llvm.create_pass_builder(target.machine, llvm.create_pipeline_tuning_options(2))
    manager = llvm.create_new_function_pass_manager()
    for name in target.passes:
        getattr(manager, f"add_{name}_pass")()
    for function in parsed.functions:
        if not function.is_declaration and b"optnone" not in b" ".join(function.attributes):
            manager.run(function, builder)
    return parsed


_EXPORTED = re.compile(r"^(?:define (?!internal).*?@|@(?=\w+ = global))(\w+)", re.MULTILINE)
_count = itertools.count()


def executable() -> bool:
    """Whether this process may execute memory that it wrote; if not, LLVM ends the process."""
    if os.name == "nt":
        return True
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    page[0] = 1
    rights = mmap.PROT_READ | mmap.PROT_EXEC
    start = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    return not ctypes.CDLL(None).mprotect(start, ctypes.c_size_t(mmap.PAGESIZE), rights)


@functools.cache
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


# Files: named by a digest of IR, LLVM and processor; used if they are the user's alone.


def build(module: Module, lasting: bool = False) -> Built:
    """A module as functions in memory, from stored machine code if there is some; `lasting` if they
    stay there for the life of the process.
    """
    ir, target = module.text(), host(module.quick)
    parts = [ir, target.name, *target.passes]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    store = opened()
    code = store.read(key) if store else None
    if code is None:
        with session.lock:
            code = store.read(key) if store else None  # another thread may just have made it
            if code is None:
                code = object_code(ir, target)
                if store:
                    store.write(key, code)
    return loaded(code, ir, lasting)


@once
def opened() -> Store | None:
    """The store of this process; None if it is off, or its folder cannot be used."""
    if os.environ.get("FUNGRAD_CACHE") == "0":
        return None
    try:
        return Store(cache_folder(sys.platform, os.environ) / "native")
    except (OSError, RuntimeError) as error:  # no home, or a full or read-only disk
        warn_once(
            f"fungrad stores no machine code: {error}. Set FUNGRAD_CACHE_DIR to another folder, "
            "or FUNGRAD_CACHE=0 to store none."
        )
        return None


_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Warns, the first time, of what makes calls slow and not wrong. Where warnings are errors the
    message is written to the error stream, and the call runs.
    """
    if message not in _warned:
        _warned.add(message)
        try:
            warnings.warn(message, RuntimeWarning, stacklevel=3)
        except RuntimeWarning:
            print(f"RuntimeWarning: {message}", file=sys.stderr)


_CACHES = {"win32": "AppData/Local", "darwin": "Library/Caches"}
"""The folder for caches in a user's home, by `sys.platform`; elsewhere it is `.cache`."""


def cache_folder(system: str, environment: Mapping[str, str]) -> Path:
    """The user's folder for files that fungrad can make again.

    Args:
      system: `sys.platform`.
      environment: `os.environ`.
    """
    chosen = environment.get("FUNGRAD_CACHE_DIR")
    if chosen:
        return Path(chosen)
    parent = environment.get("XDG_CACHE_HOME") or (
        environment.get("LOCALAPPDATA") if system == "win32" else None
    )
    return Path(parent or Path.home() / _CACHES.get(system, ".cache")) / "fungrad"


def _own(found: os.stat_result, others: int) -> bool:
    """Whether a file or folder is this user's, and others have none of these rights to it."""
    return os.name == "nt" or (found.st_uid == os.geteuid() and not found.st_mode & others)


class Store:
    """A folder of object files.

    Args:
      folder: its path; it is made if it does not exist.

    Raises:
      OSError: if it cannot be made, is not this user's, or is open to others.
    """

    def __init__(self, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or not _own(found, 0o077):
            raise PermissionError(f"{folder} is not a folder for this user alone (mode 0700)")
        self.folder = folder

    def read(self, key: str) -> bytes | None:
        """The code stored under a key; None if there is no undamaged file of this user's."""
        path = self.folder / f"{key}.o"
        try:
            with open(path, "rb", opener=_opened_itself) as file:
                found = os.fstat(file.fileno())
                data = file.read() if stat.S_ISREG(found.st_mode) and _own(found, 0o022) else b""
        except OSError:  # it does not exist, or was removed just now
            return None
        code = data[_DIGEST:]
        if not code or data[:_DIGEST] != _digest(key, code):
            return None
        if time.time() - found.st_mtime > _DAY:
            with contextlib.suppress(OSError):
                os.utime(path)
        return code

    def write(self, key: str, code: bytes) -> None:
        """Stores code under a key, atomically: other processes see all of it or nothing."""
        path = self.folder / f"{key}.o"
        aside = self.folder / f"{key}.o.{os.getpid()}.{next(_count)}"
        try:
            with open(aside, "xb", opener=_closed_to_others) as file:
                file.write(_digest(key, code) + code)
            os.replace(aside, path)
        except OSError:  # a full disk: the next process compiles again
            with contextlib.suppress(OSError):
                aside.unlink()
        self.prune_daily()

    def prune_daily(self) -> None:
        """Prunes, if no process has done so for a day."""
        stamp = self.folder / "pruned"
        try:
            if time.time() - stamp.stat().st_mtime < _DAY:
                return
        except OSError:
            pass
        with contextlib.suppress(OSError):
            stamp.touch(mode=0o600)
            self.prune()

    def prune(self) -> None:
        """Removes files that were not read for long, and the oldest if there are too many."""
        files = []
        for entry in os.scandir(self.folder):
            if _NAME.fullmatch(entry.name):
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    files.append((found.st_mtime, found.st_size, entry.path))
        size = 0
        for changed, length, path in sorted(files, reverse=True):
            size += length
            if size > LARGEST or time.time() - changed > OLDEST:
                with contextlib.suppress(OSError):  # gone, or on Windows open in another process
                    os.unlink(path)


def _digest(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode() + code).digest()


def _opened_itself(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def _closed_to_others(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
