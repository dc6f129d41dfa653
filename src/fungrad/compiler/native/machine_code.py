"""Compiles IR to machine code in memory, by a few cheap LLVM passes.

Vectors are explicit in the IR, so LLVM's loop vectoriser is not run. llvmlite is imported when the
first function is built.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import os
import re
from typing import Any

from fungrad.compiler.native.llvm_ir import Module

PASSES = ("sroa", "instruction_combine", "simplify_cfg", "new_gvn", "dead_code_elimination")
"""Passes in order: 1 to 8 ms per kernel; the standard pipeline takes 8 to 28 ms. Quick builds run
the first one alone.
"""


class Target:
    """The machine that code is compiled for.

    Args:
      processor: its name in LLVM; by default this machine's.
      features: its features.
      quick: whether to compile in a third of the time, to slower code.

    Attributes:
      machine: llvmlite's TargetMachine.
      passes: the passes to run.
      name: LLVM's version, the processor and its features: code of another name does not run here.
      vector_bytes: the width of its widest registers.
    """

    def __init__(self, processor: str = "", features: str = "", quick: bool = False) -> None:
        llvm = _llvm()
        processor = processor or llvm.get_host_cpu_name()
        features = features or llvm.get_host_cpu_features().flatten()
        self.passes = PASSES[:1] if quick else PASSES
        self.vector_bytes = 64 if "+avx512f" in features else 32 if "+avx2" in features else 16
        if self.vector_bytes == 64:
            features += ",-prefer-256-bit"
        self.machine = llvm.Target.from_default_triple().create_target_machine(
            processor,
            features,
            opt=0 if quick else 1,
            reloc="pic",
            codemodel="jitdefault",
            jit=True,
        )
        version = ".".join(map(str, llvm.llvm_version_info))
        self.name = f"{version} {processor} {features}{' quick' * quick}"


@functools.cache
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
    code: bytes = target.machine.emit_object(_optimised(ir, target))
    return code


def assembly(ir: str, target: Target) -> str:
    """The assembly text of a module's text, after the passes."""
    text: str = target.machine.emit_assembly(_optimised(ir, target))
    return text


def loaded(code: bytes, ir: str) -> Built:
    """The functions of an object file made of `ir`, linked to the symbols of this process."""
    global _pending
    known = _llvm().JITLibraryBuilder()
    if _pending:
        for name, address in _pending.items():
            known.import_symbol(name, address)
        _of_symbols.append(known.link(_linker(), f"symbols{len(_of_symbols)}"))
        _pending = {}
    builder = _llvm().JITLibraryBuilder().add_object_img(code)
    for name in _EXPORTED.findall(ir):
        builder.export_symbol(name)
    for found in _of_symbols:
        builder.add_jit_library(found.name)
    return Built(builder.add_current_process().link(_linker(), f"program{next(_count)}"))


def build(module: Module) -> Built:
    """A module as functions in memory."""
    ir = module.text()
    return loaded(object_code(ir, host(module.quick)), ir)


def _optimised(ir: str, target: Target) -> Any:
    """LLVM's module of some IR: verified, since malformed IR ends the process, and optimised."""
    llvm = _llvm()
    parsed = llvm.parse_assembly(ir)
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
_pending: dict[str, int] = {}
_of_symbols: list[Any] = []
_count = itertools.count()


def symbol(name: str, address: int) -> None:
    """Gives an address a name that IR can declare: code contains no addresses."""
    _pending[name] = address


@functools.cache
def _linker() -> Any:
    """LLVM's linker; it outlives the interpreter, since threads may still run its programs."""
    llvm = _llvm()
    made = llvm.create_lljit_compiler(Target().machine)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made


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
