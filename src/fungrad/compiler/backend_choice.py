"""The choice of the backend that runs Graphs: native code if llvmlite is installed, else NumPy
calls.

The backends are imported when the first Graph is compiled.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from fungrad.control_flow.call import Backend, Runner, use
from fungrad.errors import MissingExtraError
from fungrad.ir.graph import Equation, Graph
from fungrad.support.choices import one_of
from fungrad.support.forks import cached_property
from fungrad.support.lazy import Module, find_spec, loaded

if TYPE_CHECKING:
    from fungrad.compiler.native import backend as of_llvm
    from fungrad.compiler.numpy_backend import backend as of_numpy
else:
    of_numpy = Module("fungrad.compiler.numpy_backend.backend")
    of_llvm = Module("fungrad.compiler.native.backend")

SETTINGS = ("auto", "numpy", "native")


class Chosen(Backend):
    """The backend that a setting selects."""

    def __init__(self, setting: str) -> None:
        self.setting = setting

    @cached_property
    def name(self) -> str:
        """ "native" or "numpy"."""
        return "native" if self.setting != "numpy" and installed() else "numpy"

    @cached_property
    def _made(self) -> Backend:
        if self.name == "numpy":
            return of_numpy.NumpyBackend()
        return of_llvm.Native(only_profitable=self.setting == "auto")

    def compile(self, graph: Graph) -> Runner:
        return self._made.compile(graph)

    def checked(
        self, graph: Graph, build: Callable[[], Runner | None], settle: Callable[[Runner], None]
    ) -> Runner | None:
        return self._made.checked(graph, build, settle)

    def loop(self, equation: Equation, steps: Runner) -> Runner | None:
        return self._made.loop(equation, steps)


@functools.cache
def installed() -> bool:
    """Whether llvmlite can be imported."""
    return find_spec("llvmlite") is not None


class _State:
    def __init__(self) -> None:
        self.setting = "numpy" if os.environ.get("FUNGRAD_NATIVE") == "0" else "auto"
        self.listeners: list[Callable[[], None]] = []
        """Called after a change."""


state = _State()
use(Chosen(state.setting))


def free() -> None:
    """Frees the machine code of programs that are not in use."""
    machine_code = loaded("fungrad.compiler.native.machine_code")
    if machine_code is not None:
        machine_code.session.renew()


def choose(setting: str) -> None:
    """Sets the backend that compiles and runs Graphs from their next run on.

    Raises:
      ArgumentError: if there is no such setting.
      MissingExtraError: for "native" if llvmlite is not installed.
    """
    one_of(SETTINGS, setting, "fg.config.backend")
    if setting == "native" and not installed():
        raise MissingExtraError(
            "fungrad.config.backend = 'native' needs llvmlite: pip install 'fungrad[native]'."
        )
    state.setting = setting
    use(Chosen(setting))
    for listener in state.listeners:
        listener()
