"""Mutants of the compiler that no test notices, and why."""

from __future__ import annotations

_TYPE = "equivalent: the Writer refuses what is of another Type than the equation gives"
_COST = "equivalent in numbers: only the cost is another"
_OPEN = "open: no program was found yet in which it is another"

ALIVE: dict[str, str] = {
    "loops/out_argument_calls: what is broadcast is added to a part": (
        "equivalent: index_add refuses values of another shape than the part's"
    ),
    "loops/out_argument_calls: a product is written over its factor": (
        "equivalent in numbers: ndarray.dot copies where its output overlaps a factor"
    ),
    "simplify/exact_identities: a weak operand is read unbroadcast": _TYPE,
    "simplify/arithmetic: the dtype of a product is ignored": _TYPE,
    "simplify/exact_identities: weak numbers are folded": _TYPE,
    "simplify/slices: slices that overlap are one": _COST,
    "loops/residual_rematerialisation: dear equations are computed again": _COST,
    "loops/residual_rematerialisation: a value is larger than what it replaces": _COST,
    "loops/dce_licm: larger arrays are hoisted": _COST,
    "kernels/matmul: pieces are larger than OpenBLAS does alone": _COST,
    **dict.fromkeys(
        (
            "simplify/exact_identities: an infinity is folded",
            "simplify/slices: what is added to zeros keeps -0.0",
            "retracing/inlining: 0.0 and -0.0 are one parameter",
            "passes/pipeline: weak values are folded",
            "loops/loop_fission: two negations are one",
            "loops/loop_fission: a term of another type leaves",
            "loops/residual_rematerialisation: scans of other lengths are alike",
            "passes/jacobian_sparsity: a difference of diagonals is a sum",
            "passes/jacobian_sparsity: what is divided by diagonals",
            "passes/jacobian_sparsity: a diagonal along the other axis",
            "kernels/elementwise: large angles are reduced by three parts",
            "fusion/in_place_outputs: a value that is still read is disturbed",
            "fusion/in_place_outputs: an input that is read by other rows is written over",
            "fusion/predication: what is broadcast is added in one",
            "fusion/predication: the places of another array",
            "fusion/predication: counts along other axes",
            "fusion/tile_codegen: what a partner makes is not touched",
            "fusion/tile_codegen: extrema of columns by their places",
            "lowering/liveness: carries die in the step",
            "loops/loop_buffer_assignment: a value repeated to another shape is the same",
            "loops/out_argument_calls: sums of other dtypes are written",
            "loops/out_argument_calls: parts of other dtypes are added",
            "loops/out_argument_calls: a sum of rows keeps -0.0",
            "loops/out_argument_calls: a sum is written over its rows",
        ),
        _OPEN,
    ),
}
