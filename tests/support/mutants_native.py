"""Mutants of native code: masks, tails, bounds, operands, layouts, and what the entry checks."""

# ruff: noqa: E501 (snippets stand as in the source)
from __future__ import annotations

from mutants import of

_NATIVE = "compiler/native/"
_F, _L, _E, _O = (
    "test_native_fused.py",
    "test_native_loops.py",
    "test_native_entry.py",
    "test_native_elements.py",
)
_ALONG, _SUMS = (
    f"{_F}::test_reductions_along_an_axis_and_what_follows",
    f"{_F}::test_sums_do_not_depend_on_units_and_their_order",
)
_EACH, _STENCILS, _MOVED = (
    f"{_F}::test_elementwise_equations_are_numpys_to_the_bit",
    f"{_F}::test_stencils",
    f"{_F}::test_moved_elements",
)
_SLICES, _EXACT = (
    f"{_F}::test_slices_that_begin_where_a_unit_ends",
    f"{_F}::test_sums_are_as_exact_as_pairwise_ones",
)
_VALUES = "test_native_functions.py::test_special_values_are_those_of_numpy"

MUTANTS = (
    *of(
        f"{_NATIVE}rows.py", (_ALONG,),
        ("a lane of the last group is lost", 'return code.compare("sge", code.iota(lanes)', 'return code.compare("sgt", code.iota(lanes)'),
        ("lanes that were counted count again", "step({**counters, loop: at}, short, fresh)",
         "step({**counters, loop: at}, short, None)"),
        ("the last item of a unit is lost", '"smin", [code.add(first, self.per), self.items]',
         '"smin", [code.add(first, self.per - 1), self.items]'),
    ),
    *of(
        f"{_NATIVE}loop_nests.py", (_EACH, _SUMS, _STENCILS, _SLICES),
        ("the last row of a unit is lost", '"smin", [code.add(first, self.per), self.rows]',
         '"smin", [code.add(first, self.per - 1), self.rows]'),
        ("the last lanes of a box begin before it", 'at = code.intrinsic("smax", [at, first])', "pass"),
        ("lanes that were counted are added again", "counted = None\n            if not exact", "counted = None\n            if False and not exact"),
        ("the border behind the boxes is left out", "if before < self.last:", "if False:"),
        ("partial results begin with those of others", "at = code.add(unit, self.partials[root.number] - self.first)",
         "at = code.add(unit, 0)"),
    ),
    *of(
        f"{_NATIVE}fused.py", (_SUMS, _STENCILS, _MOVED),
        ("the part of the last unit is left out", 'code.constant(units, "i64", 1)', 'code.constant(max(units - 1, 1), "i64", 1)'),
        ("a reduction takes what lies beside its array", "for i, (o, m, k) in enumerate(ends) if m != k]", "for i, (o, m, k) in enumerate(ends) if m > k]"),
    ),
    *of(
        f"{_NATIVE}block_sums.py", (_SUMS, _ALONG, _EXACT),
        ("an odd part is lost", 'half = code.binary("lshr", code.add(now, 1), 1)', 'half = code.binary("lshr", now, 1)'),
        ("one half of the lanes is taken twice", "for start in (0, half)]", "for start in (0, 0)]"),
        ("maxima begin at zero", "-math.inf if type in FLOATS", "0.0 if type in FLOATS"),
    ),
    *of(
        f"{_NATIVE}index_maps.py", (_MOVED,),
        ("a box begins at the first element", "axis.step * (along.offset - box[axis.loop].start)", "axis.step * along.offset"),
        ("indices of a flipped axis are those of the axis", "low, high = along.offset - high + 1, along.offset - low + 1",
         "low, high = low - along.offset, high - along.offset"),
    ),
    *of(
        f"{_NATIVE}powers.py", (_O, _VALUES),
        ("the operands of a division are swapped", "q = code.div(code.sub(x, r), y)", "q = code.div(y, code.sub(x, r))"),
        ("integers are divided by zero", 'return code.select(_harmless(code, y), y, 1)', "return y"),
        ("remainders keep the sign of the dividend", "return code.select(_lower(code, r, y), code.add(r, y), r)", "return r"),
    ),
    *of(
        f"{_NATIVE}rows_and_records.py", (_L,),
        ("a tape does not move with its memory", "        code.set(self._base, grown)\n", ""),
        ("records of a step that is read later are dropped", "if loop.pushed and not loop.kept:", "if loop.pushed:"),
    ),
    *of(
        f"{_NATIVE}entry_function.py", (_E,),
        ("the layout of an argument is not asked", "%right.3 = icmp eq i32 %flags, LAID_OUT", "%right.3 = icmp eq i32 %flags, %flags"),
        ("the second length of an argument is not asked", "%k1 = add i64 %k, 1", "%k1 = add i64 %k, 2"),
        ("errors that shall raise are ignored", "icmp eq i32 %raising, 0", "icmp eq i32 %raising, %raising"),
        ("the number of arguments is not asked", "icmp eq i64 %given, %inputs", "icmp eq i64 %given, %given"),
    ),
    *of(
        f"{_NATIVE}array_loops.py", ("test_native_array_loops.py",),
        ("the buffers of a carry do not alternate", "            code.store(other, code.at(table, inputs + n, \"ptr\"))\n", ""),
        ("a reverse loop runs forward", 'at = code.sub(length - 1, index) if params["reverse"] else index', "at = index"),
    ),
    *of(
        f"{_NATIVE}products.py", ("test_native_products.py",),
        ("the last rows of a product are not computed", "if full < self.row.length:", "if False:"),
        ("the last lanes of a product are not computed", "tail = self.lane.length % self.lanes if self.across else 0", "tail = 0"),
    ),
    *of(
        f"{_NATIVE}levels.py", ("test_native_clusters.py",),
        ("what NumPy does between two clusters is in both", "return max([0, *(x + x % 2 for x in found)])",
         "return max([0, *found])"),
    ),
    *of(
        f"{_NATIVE}scratch_layout.py", ("test_native_scratch_layout.py",),
        ("arrays that are live at one time share memory", "living[0][0] < first", "living[0][0] <= first"),
        ("the last cache line is cut off", "return -(-size // LINE) * LINE", "return size // LINE * LINE"),
        ("the rest of a gap is lost", "if start + size < stop:", "if False:"),
        ("gaps beside each other stay two", "if at and gaps[at - 1][1] == start:", "if False:"),
    ),
    *of(
        f"{_NATIVE}tiling/clusters.py", ("test_native_tiles.py",),
        ("a sum is read before its last tile", "levels[output] = key[0] + (access.output == REDUCED)",
         "levels[output] = key[0]"),
        ("an array with rows along two axes is read along one", "inner.setdefault((atom, axis), own)", "inner.setdefault((atom, how.inputs[0]), own)"),
    ),
    *of(
        f"{_NATIVE}tiling/row_access.py", ("test_native_tiles.py",),
        ("all reduced axes stand before the rows", "axis - sum(a < axis for a in reduced)", "axis - len(reduced)"),
        ("a product of two arrays with rows", "fits = alike and fits and rows", "fits = fits and rows"),
    ),
    *of(
        f"{_NATIVE}tiling/tiles.py", ("test_native_tiles.py",),
        ("the last tile runs over", "stop = min(start + self.rows, self.cluster.length)", "stop = start + self.rows"),
        ("the second thread's total is left out", "*[part[number] for part in parts]", "*[part[number] for part in parts[:1]]"),
        ("the total is that of the last tile", "2 * count, _both(ufunc, before, found)", "2 * count, found"),
    ),
    *of(
        f"{_NATIVE}clusters.py", ("test_native_clusters.py",),
        ("what is not known is in a cluster", "fits = refusal_of(equation) is None or", "fits = True or"),
    ),
)  # fmt: skip
