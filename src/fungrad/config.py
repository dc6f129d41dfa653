"""Settings of this process, as attributes: `fungrad.config.num_threads = 1`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fungrad.errors import ArgumentError
from fungrad.ir.graph import Reassociation, Verification
from fungrad.support.choices import one_of
from fungrad.support.lazy import Module
from fungrad.support.snapshots import snapshot
from fungrad.tracing import interception, tracing_check
from fungrad.tracing.opaque_mode import opaque
from fungrad.tracing.tracing_check import TracingCheck

if TYPE_CHECKING:
    from fungrad.compiler import backend_choice, background, branch_guards
    from fungrad.compiler.passes.simplify import driver
    from fungrad.host import opaque_calls
    from fungrad.runtime import blas_threads, thread_pool
else:
    opaque_calls = Module("fungrad.host.opaque_calls")
    backend_choice = Module("fungrad.compiler.backend_choice")
    background = Module("fungrad.compiler.background")
    branch_guards = Module("fungrad.compiler.branch_guards")
    blas_threads = Module("fungrad.runtime.blas_threads")
    thread_pool = Module("fungrad.runtime.thread_pool")
    driver = Module("fungrad.compiler.passes.simplify.driver")


class Config:
    """The settings. No other attribute can be set."""

    __slots__ = ()

    @property
    def num_threads(self) -> int:
        """The number of threads for large elementwise work of jitted functions.

        Initially the value of the environment variable FUNGRAD_NUM_THREADS, or the number of cores
        that this process may use.

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
        """The number of threads of NumPy's BLAS for one matrix product, in the whole process.

        Two threads on two busy cores can make a small product 300 times slower: set it to 1 if
        products are small, or if threads or processes share the work already. Needs threadpoolctl
        (the extra `blas`); None if no BLAS is found.
        """
        return blas_threads.blas_threads()

    @blas_threads.setter
    def blas_threads(self, count: int) -> None:
        blas_threads.set_blas_threads(count)

    @property
    def backend(self) -> str:
        """The backend of compiled functions. "auto": machine code if llvmlite is installed (the
        extra `native`), else NumPy's functions; NumPy's also for a program that takes longer to
        build than 10,000 calls save. "native": machine code always, an error without llvmlite.
        "numpy": NumPy's functions always. See docs/native.md.

        Initially "auto"; "numpy" if the environment variable FUNGRAD_NATIVE is 0. After a change
        functions are compiled again.

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
    def build(self) -> str:
        """When native programs are built: "now", at the first call, which waits; "background", in
        another thread, while calls are evaluated equation by equation.

        Initially "now", or the value of the environment variable FUNGRAD_BUILD. With "background"
        no call waits for LLVM, but the last digits of a result can change once, when the program is
        ready. A change to "now" waits for the programs that are being built. See docs/native.md.

        >>> import fungrad as fg
        >>> fg.config.build
        'now'
        """
        return background.state.setting

    @build.setter
    def build(self, setting: str) -> None:
        background.choose(setting)

    @property
    def kernels(self) -> str:
        """The implementations of functions in newly compiled programs: "auto" uses those that are
        faster than NumPy's and within 2 ulp of the exact value, "numpy" always NumPy's.

        >>> import fungrad as fg
        >>> fg.config.kernels
        'auto'
        """
        return driver.Kernels.chosen

    @kernels.setter
    def kernels(self, value: str) -> None:
        driver.Kernels.chosen = one_of(driver.SETTINGS, value, "fg.config.kernels")

    @property
    def reassociate(self) -> bool:
        """Whether compiled functions may use rules that are exact only without rounding errors:
        take a factor out of a sum, regroup products.

        Initially False: they round as NumPy does, operation by operation. `fg.jit(f,
        reassociate=True)` sets it for one function. docs/performance.md says what accuracy each
        rule can lose.

        >>> import fungrad as fg
        >>> fg.config.reassociate
        False
        """
        return Reassociation.allowed

    @reassociate.setter
    def reassociate(self, value: bool) -> None:
        Reassociation.allowed = _truth("reassociate", value)
        for listener in backend_choice.state.listeners:
            listener()

    @property
    def branches(self) -> str:
        """How compiled functions act if Python needs a value (`if x > 0`, `int(n)`): "guard"
        follows the value and makes a program for each path, "error" raises.

        Initially "guard". `fg.jit(f, branches="error")` sets it for one function. A change applies
        to functions traced later. See docs/control-flow.md.

        >>> import fungrad as fg
        >>> fg.config.branches
        'guard'
        """
        return branch_guards.Branches.chosen

    @branches.setter
    def branches(self, value: str) -> None:
        chosen = one_of(branch_guards.CHOICES, value, "fg.config.branches")
        branch_guards.Branches.chosen = chosen

    @property
    def verify(self) -> str:
        """Which runs of a compiled program are compared with the evaluator, which runs the traced
        Graph equation by equation: "first", "always" or "never".

        If they differ by more than the rounding of the operations explains, the evaluator's numbers
        are returned, with a MiscompiledWarning, and the program is not used again. Initially
        "first", or the value of the environment variable FUNGRAD_VERIFY. "always" and "never" hold
        for what a compiled function has captured, too. The argument `verify=` of
        `fg.jit` sets it for one function. See docs/self-check.md.

        >>> import fungrad as fg
        >>> fg.config.verify
        'first'
        """
        return Verification.runs

    @verify.setter
    def verify(self, value: str) -> None:
        Verification.runs = one_of(Verification.CHOICES, value, "fg.config.verify")
        for listener in backend_choice.state.listeners:
            listener()

    @property
    def verify_tracing(self) -> str:
        """Which functions are called once without a trace, at the first call of a derivative of
        them, to compare the values: "foreign", if code of other packages ran under the trace, or
        code that compares identities (`is True`, keys of dicts); "always" or "never".

        If the values differ, the call raises a TracingError that names the line at which the two
        runs part. NumPy's and Python's global random states are as before. A function that differs
        from itself raises no error. Initially "foreign".

        >>> import fungrad as fg
        >>> fg.config.verify_tracing
        'foreign'
        """
        return TracingCheck.runs

    @verify_tracing.setter
    def verify_tracing(self, value: str) -> None:
        TracingCheck.runs = one_of(tracing_check.CHOICES, value, "fg.config.verify_tracing")

    @property
    def opaque(self) -> str:
        """What happens where traced values meet code that cannot be traced, as compiled code.

        "error": it raises an error, which names the line and the ways out. "differences": the
        nearest function around it is computed plainly, and differentiated by checked differences of
        its results; a warning names it once. `with fg.opaque("differences"):` sets it for a block.
        Initially "error". See docs/interop/any-numpy-code.md.

        >>> import fungrad as fg
        >>> fg.config.opaque
        'error'
        """
        return opaque.setting

    @opaque.setter
    def opaque(self, value: str) -> None:
        opaque_calls.choose(value)

    @property
    def intercept(self) -> bool:
        """Whether fungrad replaces np.array, np.zeros and similar functions while a transform
        traces. Otherwise NumPy makes object arrays of traced values, and traced values cannot be
        written into new arrays.

        >>> import fungrad as fg
        >>> fg.config.intercept
        True
        """
        return interception.State.on

    @intercept.setter
    def intercept(self, value: bool) -> None:
        interception.State.on = _truth("intercept", value)

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(getattr(type(self), name, None), property):
            known = [n for n, v in snapshot(vars(type(self))).items() if isinstance(v, property)]
            raise ArgumentError(f"fungrad has no setting {name!r}; it has {', '.join(known)}.")
        object.__setattr__(self, name, value)


def _truth(name: str, value: bool) -> bool:
    if not isinstance(value, bool):
        raise ArgumentError(f"fungrad.config.{name} is True or False, not {value!r}.")
    return value


config = Config()
