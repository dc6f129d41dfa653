"""LLVM's work: IR to machine code in memory, by a few cheap passes.

Vectors are explicit in the IR, so LLVM's loop vectoriser is not run. llvmlite is imported with the
first function that is built.
"""

from __future__ import annotations

import functools
from typing import Any

from fungrad.compiler.native.llvm_ir import Module

PASSES = ("sroa", "instruction_combine", "simplify_cfg", "new_gvn", "dead_code_elimination")
"""In this order: 1 to 8 ms a kernel, where the standard pipeline takes 8 to 28."""


class Target:
    """The machine that code is made for.

    Attributes:
      machine: llvmlite's TargetMachine.
      name: LLVM's version, the processor and its features: code made under another name does not
        run here.
      vector_bytes: of its widest registers.
    """

    def __init__(self, processor: str = "", features: str = "") -> None:
        llvm = _llvm()
        processor = processor or llvm.get_host_cpu_name()
        features = features or llvm.get_host_cpu_features().flatten()
        self.vector_bytes = 64 if "+avx512f" in features else 32 if "+avx2" in features else 16
        if self.vector_bytes == 64:
            features += ",-prefer-256-bit"
        self.machine = llvm.Target.from_default_triple().create_target_machine(
            processor, features, opt=2, reloc="pic", codemodel="jitdefault", jit=True
        )
        version = ".".join(map(str, llvm.llvm_version_info))
        self.name = f"{version} {processor} {features}"


@functools.cache
def host() -> Target:
    """The processor that runs this process."""
    return Target()


class Built:
    """Functions in memory; they live as long as this does."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def address(self, name: str) -> int:
        address: int = self._engine.get_function_address(name)
        return address


def object_code(module: Module, target: Target) -> bytes:
    """The object file of a module."""
    parsed = verified(module)
    run_passes(parsed, target)
    code: bytes = target.machine.emit_object(parsed)
    return code


def assembly(module: Module, target: Target) -> str:
    """The assembly text of a module, after the passes."""
    parsed = verified(module)
    run_passes(parsed, target)
    text: str = target.machine.emit_assembly(parsed)
    return text


def loaded(code: bytes, target: Target) -> Built:
    """An object file, linked to the symbols of this process."""
    llvm = _llvm()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target.machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return Built(engine)


def build(module: Module, target: Target | None = None) -> Built:
    """A module as functions in memory."""
    target = target or host()
    return loaded(object_code(module, target), target)


def verified(module: Module) -> Any:
    """A module as LLVM holds it, checked: code is never made from IR that is not well formed."""
    parsed = _llvm().parse_assembly(module.text())
    parsed.verify()
    return parsed


def run_passes(parsed: Any, target: Target) -> None:
    """The cheap passes, for each function."""
    llvm = _llvm()
    builder = llvm.create_pass_builder(target.machine, llvm.create_pipeline_tuning_options(2))
    manager = llvm.create_new_function_pass_manager()
    for name in PASSES:
        getattr(manager, f"add_{name}_pass")()
    for function in parsed.functions:
        if not function.is_declaration:
            manager.run(function, builder)


def symbol(name: str, address: int) -> None:
    """Gives an address a name that IR can declare: no number stands in code."""
    _llvm().add_symbol(name, address)


@functools.cache
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


__all__ = [
    "Built", "Target", "assembly", "build", "host", "loaded", "object_code", "symbol", "verified",
]  # fmt: skip
