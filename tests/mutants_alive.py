"""Mutants of the compiler that no test notices, and why."""

from __future__ import annotations

_TYPE = "equivalent: the Writer refuses what is of another Type than the equation gives"
_COST = "equivalent in numbers: only the cost is another"
_OPEN = "open: no program was found yet in which it is another"

ALIVE: dict[str, str] = {
    "lowering/output_placement: what is broadcast is added to a part": (
        "equivalent: index_add refuses values of another shape than the part's"
    ),
    "lowering/output_placement: a product is written over its factor": (
        "equivalent in numbers: ndarray.dot copies where its output overlaps a factor"
    ),
    "simplify/exact_identities: a weak operand is read unbroadcast": _TYPE,
    "simplify/arithmetic: the dtype of a product is ignored": _TYPE,
    "simplify/exact_identities: weak numbers are folded": _TYPE,
    "loops/residual_rematerialisation: dear equations are computed again": _COST,
    "loops/dce_licm: larger arrays are hoisted": _COST,
    "kernels/reductions: pieces are larger than OpenBLAS does alone": _COST,
    **dict.fromkeys(
        (
            "fusion/clustering: a part is put together twice",
            "native/rows_and_records: records of a step that is read later are dropped",
            "simplify/exact_identities: an infinity is folded",
            "simplify/slices: what is added to zeros keeps -0.0",
            "retracing/inlining: 0.0 and -0.0 are one parameter",
            "passes/pipeline: weak values are folded",
            "loops/loop_fission: a term of another type leaves",
            "loops/residual_rematerialisation: scans of other lengths are alike",
            "passes/jacobian_sparsity: a difference of diagonals is a sum",
            "passes/jacobian_sparsity: what is divided by diagonals",
            "passes/jacobian_sparsity: a diagonal along the other axis",
            "kernels/elementwise: large angles are reduced by three parts",
            "fusion/tile_lowering: kernels of doubles get other dtypes",
            "fusion/output_slices: a part of another dtype",
            "fusion/tile_lowering: parts far from each other are shared",
            "fusion/row_access: the imaginary part is cast away",
            "fusion/row_access: any axis of that length has the rows",
            "fusion/row_access: a product of two arrays with rows",
            "fusion/row_access: axes are turned the other way",
            "fusion/row_access: joined along the rows",
            "lowering/loop_memory: carries die in the step",
            "lowering/output_placement: sums of other dtypes are written",
            "lowering/output_placement: parts of other dtypes are added",
            "lowering/output_placement: a sum of rows keeps -0.0",
            "lowering/output_placement: a sum is written over its rows",
        ),
        _OPEN,
    ),
}
