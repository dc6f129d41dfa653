"""Mutants of what generates and runs programs: kernels, masks, blocks, memory, loops, threads."""

# ruff: noqa: E501 (snippets stand as in the source)
from __future__ import annotations

from mutants import of

_B, _K, _M = "test_backend.py::test_", "test_kernels.py", "test_masks.py"
AGREE = (f"{_B}values_and_gradients_agree_with_the_reference", f"{_B}the_cases_in_tiny_blocks")
BACKEND = ("test_backend.py",)
BUFFERS = ("test_buffers.py", *AGREE)
SCANS = ("test_ordinary_scans.py", "test_scans.py")

MUTANTS = (
    *of(
        "runtime/buffer_pool.py", ("test_buffers.py", f"{_B}buffers_are_used_again_held_within_bounds_and_freed"),
        ("arrays that are needed at one time share memory", "if times[i] & times[j] and", "if times[i] & (times[j] >> 1) and"),
        ("the last cache line is cut off", "return -(-math.prod(shape) * dtype.itemsize // LINE) * LINE",
         "return (math.prod(shape) * dtype.itemsize // LINE) * LINE"),
        ("an arena that is too small", "if arena.size >= size]", "]"),
        ("what lives has no memory of its own", "    def __del__(self) -> None:\n        give(self.arena)\n", "        give(self.arena)\n"),
        ("more is held than may be", "while _free and arena.size + held() > LIMIT:", "while False:"),
    ),
    *of(
        "runtime/tiles.py", BACKEND,
        ("the last tile runs over", "slice(i, min(i + step, stop))", "slice(i, i + step)"),
        ("the last tile's buffers are whole ones", "*[found] * (rows // step), found[last]]", "*[found] * (rows // step), found]"),
        ("the second thread's total is left out", "zip(plan.totals, *filter(None, parts), strict=True)", "zip(plan.totals, *filter(None, parts[:1]), strict=True)"),
        ("the first tiles of threads are left out", "for tile in sorted(left)]", "for tile in sorted(left)[:0]]"),
        ("the total is that of the last tile", "2 * count, _both(ufunc, before, found)", "2 * count, found"),
    ),
    *of(
        "compiler/numpy_backend/fusion/tile_lowering.py", (*BUFFERS, "test_products_by_rows.py", f"{_B}parts_that_are_a_sine_and_its_cosine_with_others_between"),
        ("what a kernel writes is free before it is read", "        held = {v: self.assigned.pop(v) for v in own}\n", "        held = dict[Variable, Any]()\n"),
        ("what is added is written", "            self.write(f\"{add}({{0}}, {{1}}, {{2}})\"", "            self.write(f\"{add}({{1}}, 0.0, {{2}})\""),
    ),
    *of(
        "compiler/numpy_backend/loop_memory.py", SCANS,
        ("nothing is a view", "        or by_ufunc(step)\n    )", "        or True\n    )"),
        ("results die in the step", "kept = _NOTHING.union(*map(self.bases, graph.outputs))",
         "kept = _NOTHING.union(*map(self.bases, graph.outputs[:n]))"),
        ("carries die in the step", "kept = _NOTHING.union(*map(self.bases, graph.outputs))",
         "kept = _NOTHING.union(*map(self.bases, graph.outputs[n:]))"),
    ),
    *of(
        "compiler/loop_ir/printer.py", ("test_loop_ir.py",),
        ("a value that is read later hands its name on", "last_uses(nodes, kept)", "last_uses(nodes, ())"),
    ),
    *of(
        "compiler/loop_ir/program.py", ("test_loop_ir.py",),
        ("iterators that are read are dropped", "if not read.isdisjoint(it.values)]", "if read.isdisjoint(it.values)]"),
        ("a carry is set before another moves to it", "others = [x for _, x in left if x is not source]", "others: list[Any] = []"),
        ("a carry is set before its last reader", "*others, *between):", "*others):"),
        ("a value that others read is renamed", "if made is None or touches[source] != 2:", "if made is None:"),
    ),
    *of(
        "compiler/numpy_backend/loop_memory.py", SCANS,
        ("a buffer is free one equation too early", "for base in self.liveness.ended[self.at]:",
         "for base in self.liveness.ended[min(self.at + 1, len(self.liveness.ended) - 1)]:"),
        ("buffers of other dtypes are alike", "return variable.type.shape, variable.type.dtype",
         "return variable.type.shape"),
        ("what changes is viewed once", "        if source.invariant:\n            return self.hoisted",
         "        if source.rows is None:\n            return self.hoisted"),
    ),
    *of(
        "compiler/numpy_backend/loop_codegen.py", SCANS,
        ("a scan backwards begins at the front", "{{0}}[{-self.backwards}]", "{{0}}[0]"),
    ),
    *of(
        "compiler/numpy_backend/loop_codegen.py", SCANS,
        ("a carry may be a view of another value",
         "own = after in self.definitions and self.liveness.bases(after) == {after}", "own = True"),
        ("a carry may be a row of a stack",
         "row = isinstance(after, Variable) and self.targets.get(after) in self.stack_of", "row = False"),
        ("a view of a step's own memory is hoisted", "source.memory is FRESH or not", "not"),
        ("a reshaped copy is a view", "if equation.primitive is reshape and source.memory is not BUFFER:", "if False:"),
        ("what a buffer holds dies before it is read", "        if write is write_ufunc:\n            self.release()\n",
         "        self.release()\n"),
        ("what is read later is dropped", "self.freed(touched([move]))", "self.freed(())"),
    ),
    *of(
        "compiler/numpy_backend/array_lowering.py", ("test_in_place.py", *BACKEND),
        ("an array that others read is added to", " or x not in self._own or self.uses[x] != 1:",
         " or x not in self._own:"),
        ("an array of the user's is added to", " or x not in self._own or self.uses[x] != 1:",
         " or self.uses[x] != 1:"),
        ("numbers of two dtypes are one", "key = (dtype, repr(number))", "key = repr(number)"),
    ),
    *of(
        "compiler/numpy_backend/fusion/clustering.py", ("test_effects.py",),
        ("effects in the order of their levels", "        if effectful(equation):  #", "        if False:  #"),
    ),
    *of(
        "compiler/numpy_backend/fusion/clustering.py", (*BACKEND, "test_buffers.py"),
        ("a sum is read before its last block", "self.level[output] = level + (found.output == REDUCED)",
         "self.level[output] = level"),
        ("a part is put together twice", "if reader is None or reader in mine or reader in absorbed:",
         "if reader is None or reader in mine:"),
        ("an array with rows along two axes is read along one", "inner.setdefault((atom, axis), own)", "inner.setdefault((atom, how.inputs[0]), own)"),
    ),
    *of(
        "compiler/numpy_backend/fusion/clustering.py", BACKEND,
        ("threads add to rows that others fill", "if axis is None or -1 in at or box[axis].step != 1:", "if axis is None or -1 in at:"),
        ("a whole that others read is put together", "reader = readers[0] if len(readers) == 1 else None",
         "reader = readers[0] if readers else None"),
    ),
    *of(
        "compiler/numpy_backend/fusion/row_access.py", (*BACKEND, "test_products_by_rows.py"),
        ("all reduced axes stand before the rows", "axis - sum(a < axis for a in reduced)", "axis - len(reduced)"),
        ("the imaginary part is cast away", '"O" not in kinds and kinds not in ("cf", "ci", "cb", "cu")',
         '"O" not in kinds'),
        ("an axis of one element has rows", "axis if axis >= 0 and shape[axis] == output[place] else None",
         "axis if axis >= 0 else None"),
        ("an index of some rows takes all", "if len(rows) == output[along.loop] == shape[axis] else", "if len(rows) == output[along.loop] else"),
        ("a product of two arrays with rows", "fits = alike and fits and rows", "fits = fits and rows"),
    ),
    *of(
        "compiler/numpy_backend/fusion/row_access.py", BACKEND,
        ("joined along the rows", "if len(rows) == output[along.loop] == shape[axis] else", "if len(rows) == shape[axis] else"),
    ),
    *of(
        "compiler/numpy_backend/fusion/tiling.py", ("test_products_by_rows.py", *BACKEND),
        ("blocks of products are as small as others",
         "step = max(step, min(costs.product_rows, 4 * costs.tile_elements // wide, region.length))", "pass"),
        ("threads share what is too small", "return sum(map(_cost, region.equations)) >= costs.shared_work", "return True"),
        ("blocks of threads are as small as those of one", "costs.tile_elements if threads == 1 else larger * costs.tile_elements", "costs.tile_elements"),
    ),
    *of(
        "compiler/numpy_backend/fusion/tile_lowering.py", BACKEND,
        ("parts far from each other are shared", "shareable = all(last - first <= self.tile for first, last in reaches)",
         "shareable = True"),
    ),
    *of(
        "runtime/thread_pool.py", BACKEND,
        ("the last stretch ends with a page", "for i in range(threads)] + [total]", "for i in range(threads)] + [unit * units]"),
        ("errors of other threads are lost", "    if errors:\n        raise errors[0]\n", ""),
        ("settings do not reach the threads", "results[i] = context.run(work, bounds[i], bounds[i + 1])",
         "results[i] = work(bounds[i], bounds[i + 1])"),
    ),
    *of(
        "runtime/kernels/elementwise.py", (_K, _M),
        ("the sine of -0.0 is 0.0", "largest < LARGEST and k.min(initial=1.0) > _TINY)", "largest < LARGEST)"),
        ("large angles are reduced by three parts", "LARGEST = 1e5", "LARGEST = 1e12"),
        ("two quarter turns are none", "    np.subtract(_ONE, z, t)  # 1, 0, -1", "    np.subtract(_ONE, np.minimum(z, _ONE), t)  # 1, 0, -1"),
        ("every number that is not chosen is 0.0", "zeros = not y.ndim and not y ", "zeros = not y.ndim "),
        ("equal infinities differ by NaN", "    if unsure:", "    if False:"),
        ("small squares vanish", "if not (smallest > _SQUARED[out.dtype.char] and largest < np.inf):", "if not largest < np.inf:"),
        ("large squares overflow", "smallest > _SQUARED[out.dtype.char] and largest < np.inf)", "smallest > _SQUARED[out.dtype.char])"),
        ("the error function ends with its grid", "if not (x.size and -_SATURATED < x.min() and x.max() < _SATURATED):", "if False:"),
        ("the error function of -0.0 is 0.0", "    found[0] = -0.0", "    found[0] = 0.0"),
        ("the scratch of a kernel is its argument", "logaddexp: (0, 1), hypot: (1, 0),", "logaddexp: (0, 1), hypot: (0, 1),"),
        ("what is picked is what is not", "np.bitwise_xor(bits, y, bits)", "np.bitwise_xor(bits, x, bits)"),
    ),
    *of(
        "runtime/kernels/reductions.py", (f"{_B}reductions_along_the_last_axes_agree", f"{_B}reductions_along_the_last_axis_of_special_numbers_agree",
                     _K, f"{_B}pools_of_images_and_their_gradients_agree"),
        ("a sum of terms keeps -0.0", "        ufunc(out, 0.0, out=out)\n", "        pass\n"),
        ("the last term is left out", "first, second, *others = places", "first, second, *others = places[:-1] if len(places) > 2 else places"),
    ),
    *of(
        "compiler/numpy_backend/fusion/tile_lowering.py", (_K, *BACKEND),
        ("kernels of doubles get other dtypes", "return found if alike and fits else None", "return found if fits else None"),
        ("a cosine is written for a sine", "both = (ufuncs.sin, ufuncs.cos)", "both = (ufuncs.cos, ufuncs.sin)"),
        ("singles get kernels of doubles", "fits = dtype == np.float64 or (dtype == np.float32 and found in SINGLE)",
         "fits = dtype in (np.float64, np.float32)"),
    ),
    *of(
        "compiler/numpy_backend/python_emitter.py", ("test_jit.py", "test_backend.py", "test_programs.py"),
        ("an overflow of Python's is raised", "(ZeroDivisionError, OverflowError, ValueError, IndexError)", "(ZeroDivisionError, ValueError, IndexError)"),
        ("a division by zero is raised", "(ZeroDivisionError, OverflowError, ValueError, IndexError)", "(OverflowError, ValueError, IndexError)"),
    ),
)  # fmt: skip
