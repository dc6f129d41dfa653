"""Settings of this process, as attributes: `fungrad.config.num_threads = 1`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fungrad.errors import ArgumentError
from fungrad.support.lazy import Module
from fungrad.tracing import interception

if TYPE_CHECKING:
    from fungrad.compiler import backend_choice, branch_guards
    from fungrad.compiler.passes.simplify import blas_and_power_forms
    from fungrad.runtime import blas_threads, thread_pool
else:
    backend_choice = Module("fungrad.compiler.backend_choice")
    branch_guards = Module("fungrad.compiler.branch_guards")
    blas_threads = Module("fungrad.runtime.blas_threads")
    thread_pool = Module("fungrad.runtime.thread_pool")
    blas_and_power_forms = Module("fungrad.compiler.passes.simplify.blas_and_power_forms")


class Config:
    """The settings. No other attribute can be set."""

    __slots__ = ()

    @property
    def num_threads(self) -> int:
        """How many threads large elementwise work of jitted functions is shared among.

        At the start as many as there are cores that this process may use, or what the environment
        variable FUNGRAD_NUM_THREADS says.

        >>> import fungrad as fg
        >>> before = fg.config.num_threads
        >>> fg.config.num_threads = 1
        >>> fg.config.num_threads = before
        """
        return thread_pool.num_threads()

    @num_threads.setter
    def num_threads(self, count: int) -> None:
        thread_pool.set_num_threads(count)

    @property
    def blas_threads(self) -> int | None:
        """How many threads NumPy's BLAS uses for one product of matrices, in the whole process.

        Two threads on two busy cores can make a small product 300 times slower: set it to 1 where
        products are small, or where the work is shared among threads or processes already. Needs
        threadpoolctl, which the extra `blas` brings; None if no BLAS is found.
        """
        return blas_threads.blas_threads()

    @blas_threads.setter
    def blas_threads(self, count: int) -> None:
        blas_threads.set_blas_threads(count)

    @property
    def backend(self) -> str:
        """What runs compiled functions: "auto" machine code of their own where llvmlite is
        installed, which the extra `native` brings, else NumPy's functions; "numpy" always those;
        "auto" leaves to NumPy what would take longer to build than 10,000 calls save; "native" does
        not, and is an error without llvmlite. docs/native.md says more.

        At the start "auto"; "numpy" where the environment variable FUNGRAD_NATIVE is 0. What is
        compiled already is compiled anew after a change.

        >>> import fungrad as fg
        >>> before = fg.config.backend
        >>> fg.config.backend = "numpy"
        >>> fg.config.backend = before
        """
        return backend_choice.state.setting

    @backend.setter
    def backend(self, setting: str) -> None:
        backend_choice.choose(setting)

    @property
    def kernels(self) -> str:
        """Which forms of functions newly compiled programs compute: "auto" takes those that are
        faster than NumPy's own and within 2 ulp of the right value, "numpy" always NumPy's, "fast"
        also sine and cosine within 3.

        >>> import fungrad as fg
        >>> fg.config.kernels
        'auto'
        """
        return blas_and_power_forms.setting()

    @kernels.setter
    def kernels(self, value: str) -> None:
        blas_and_power_forms.choose(value)

    @property
    def branches(self) -> str:
        """How compiled functions act where Python asks for a value (`if x > 0`, `int(n)`):
        "error" refuses, "guard" follows the answer and makes a program for each path.

        At the start "error". `fg.jit(f, branches="guard")` decides for one function. It holds for
        what is traced from then on. docs/control-flow.md shows it.

        >>> import fungrad as fg
        >>> fg.config.branches
        'error'
        """
        return branch_guards.state.branches

    @branches.setter
    def branches(self, value: str) -> None:
        branch_guards.choose(value)

    @property
    def intercept(self) -> bool:
        """Whether functions of fungrad take the place of np.array, np.zeros and their kin while a
        transform traces. Without it NumPy makes object arrays of traced values, and traced values
        cannot be written into the arrays that it makes.

        >>> import fungrad as fg
        >>> fg.config.intercept
        True
        """
        return interception.State.on

    @intercept.setter
    def intercept(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise ArgumentError(f"fungrad.config.intercept is True or False, not {value!r}.")
        interception.State.on = value

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(getattr(type(self), name, None), property):
            known = [n for n, v in vars(type(self)).items() if isinstance(v, property)]
            raise ArgumentError(f"fungrad has no setting {name!r}; it has {', '.join(known)}.")
        object.__setattr__(self, name, value)


config = Config()
