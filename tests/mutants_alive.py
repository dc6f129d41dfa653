"""Mutants of the compiler that no test notices, and why."""

from __future__ import annotations

_TYPE = "equivalent: the Writer refuses what is of another Type than the equation gives"
_COST = "equivalent in numbers: only the cost is another"
_OPEN = "open: no program was found yet in which it is another"

ALIVE: dict[str, str] = {
    "exact_identities: weak numbers are folded": _TYPE,
    "negation: the dtype of a product is ignored": _TYPE,
    "merge_adjacent_slices: slices that overlap are one": _COST,
    "residual_rematerialisation: dear equations are computed again": _COST,
    "residual_rematerialisation: a value is larger than what it replaces": _COST,
    "dce_licm: larger arrays are hoisted": _COST,
    "matmul: pieces are larger than OpenBLAS does alone": _COST,
    **dict.fromkeys(
        (
            "merge_adjacent_slices: what is added to zeros keeps -0.0",
            "rewriter: 0.0 and -0.0 are one parameter",
            "rewriter: other readers of a chain are ignored",
            "rewriter: the type of what is found",
            "pipeline: weak values are folded",
            "reassociation: two negations are one",
            "reassociation: products that others read are joined",
            "reassociation: triangles are inverted whole",
            "loop_fission: a term of another type leaves",
            "residual_rematerialisation: scans of other lengths are alike",
            "rules: a difference of diagonals is a sum",
            "rules: what is divided by diagonals",
            "rules: a diagonal along the other axis",
            "elementwise: large angles are reduced by three parts",
            "elementwise: extrema of a view are found as they stand",
            "predication: what is broadcast is added in one",
            "predication: the places of another array",
            "predication: counts along other axes",
            "tile_codegen: what a partner makes is not touched",
            "tile_codegen: extrema of columns by their places",
            "liveness: carries die in the step",
            "loop_buffer_assignment: a value repeated to another shape is the same",
            "out_argument_calls: sums of other dtypes are written",
            "out_argument_calls: parts of other dtypes are added",
            "out_argument_calls: a sum of rows keeps -0.0",
            "out_argument_calls: what is broadcast is added to a part",
            "out_argument_calls: a product is written over its factor",
            "out_argument_calls: a sum is written over its rows",
        ),
        _OPEN,
    ),
}
