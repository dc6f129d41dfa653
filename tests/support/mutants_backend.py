"""Mutants of what generates and runs programs: kernels, memory, loops, threads."""

# ruff: noqa: E501 (snippets stand as in the source)
from __future__ import annotations

from mutants import of

_B, _K = "test_backend.py::test_", "test_kernels.py"
AGREE = (f"{_B}values_and_gradients_agree_with_the_reference", f"{_B}the_cases_in_reused_memory")
BACKEND = ("test_backend.py",)
BUFFERS = ("test_buffers.py", *AGREE)
SCANS = ("test_ordinary_scans.py", "test_scans.py")

MUTANTS = (
    *of(
        "runtime/buffer_pool.py", ("test_buffers.py", f"{_B}buffers_are_used_again_held_within_bounds_and_freed"),
        ("an arena that is too small", "if arena.size >= size]", "]"),
        ("what lives has no memory of its own", "    def __del__(self) -> None:\n        give(self.arena)\n", "        give(self.arena)\n"),
        ("more is held than may be", "while _free and arena.size + held() > LIMIT:", "while False:"),
    ),
    *of(
        "compiler/numpy_backend/liveness.py", SCANS,
        ("nothing is a view", "or primitive.reduces is not None or by_ufunc(equation)", "or True"),
        ("results die in the step", "dict.fromkeys(graph.outputs, len(steps))",
         "dict.fromkeys(graph.outputs[:n], len(steps))"),
        ("carries die in the step", "dict.fromkeys(graph.outputs, len(steps))",
         "dict.fromkeys(graph.outputs[n:], len(steps))"),
        ("memory dies before its views", "max([at, *ends]) if aliasing else at", "at"),
    ),
    *of(
        "compiler/loop_ir/printer.py", ("test_loop_ir.py",),
        ("a value that is read later hands its name on", "last_uses(nodes, kept)", "last_uses(nodes, ())"),
        ("what the next iteration reads hands its name on", "{*later, *block.inputs}", "{*later}"),
    ),
    *of(
        "compiler/loop_ir/program.py", ("test_loop_ir.py",),
        ("iterators that are read are dropped", "if not read.isdisjoint(it.values)]", "if read.isdisjoint(it.values)]"),
        ("a carry is set before another moves to it", "others = [x for _, x in left if x is not source]", "others: list[Any] = []"),
        ("a carry is set before its last reader", "*others, *between):", "*others):"),
        ("a value that others read is renamed", "if made is None or touches[source] != 2:", "if made is None:"),
    ),
    *of(
        "compiler/numpy_backend/array_control_flow.py", SCANS,
        ("a scan writes no rows", "            elif row is not made.handle:\n", "            elif False:\n"),
    ),
    *of(
        "compiler/numpy_backend/array_lowering.py", ("test_in_place.py", _K, *BACKEND),
        ("an array that others read is added to", " or x not in self._own or self.uses[x] != 1:",
         " or x not in self._own:"),
        ("an array of the user's is added to", " or x not in self._own or self.uses[x] != 1:",
         " or self.uses[x] != 1:"),
        ("numbers of two dtypes are one", "key = (dtype, repr(number))", "key = repr(number)"),
        ("what is read later is written over", "if atom in self.made and atom in self.liveness.ended[self.at]:", "if atom in self.made:"),
        ("an array of the user's is written over", "if atom in self.made and atom in self.liveness.ended[self.at]:", "if atom in self.liveness.ended[self.at]:"),
        ("a result is in reused memory", "if type_.size < costs.small_array or output in self.liveness.carried:", "if type_.size < costs.small_array:"),
    ),
    *of(
        "runtime/kernels.py", (_K, *BACKEND),
        ("equal infinities differ by NaN", "    if unsure:", "    if False:"),
        ("the error function ends with its grid", "if not (x.size and -_SATURATED < x.min() and x.max() < _SATURATED):", "if False:"),
        ("the error function of -0.0 is 0.0", "    table[0] = -0.0", "    table[0] = 0.0"),
        ("a sum of terms keeps -0.0", "return ufunc(out, 0.0, out=out) if ufunc is np.add else out", "return out"),
        ("the last term is left out", "for i in range(2, x.shape[-1]):", "for i in range(2, max(x.shape[-1] - 1, 3) if x.shape[-1] > 2 else 2):"),
    ),
    *of(
        "compiler/numpy_backend/kernels.py", (_K, *BACKEND),
        ("kernels of doubles get other dtypes", "return known if alike and fits else None", "return known if fits else None"),
        ("singles get kernels of doubles", "fits = type_.dtype == np.float64 or (type_.dtype == np.float32 and known.single)",
         "fits = type_.dtype in (np.float64, np.float32)"),
    ),
    *of(
        "runtime/thread_pool.py", BACKEND,
        ("the last stretch ends with a page", "for i in range(threads)] + [total]", "for i in range(threads)] + [unit * units]"),
        ("errors of other threads are lost", "    if errors:\n        raise errors[0]\n", ""),
        ("settings do not reach the threads", "results[i] = context.run(work, bounds[i], bounds[i + 1])",
         "results[i] = work(bounds[i], bounds[i + 1])"),
    ),
    *of(
        "compiler/numpy_backend/python_emitter.py", ("test_jit.py", "test_backend.py", "test_programs.py"),
        ("an overflow of Python's is raised", "(ZeroDivisionError, OverflowError, ValueError, IndexError)", "(ZeroDivisionError, ValueError, IndexError)"),
        ("a division by zero is raised", "(ZeroDivisionError, OverflowError, ValueError, IndexError)", "(OverflowError, ValueError, IndexError)"),
    ),
)  # fmt: skip
