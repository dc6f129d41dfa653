"""Mutants of the compiler that no test notices, and why."""

from __future__ import annotations

_TYPE = "equivalent: the Writer refuses what is of another Type than the equation gives"
_COST = "equivalent in numbers: only the cost is another"
_OPEN = "open: no program was found yet in which it is another"

ALIVE: dict[str, str] = {
    "algebra: weak numbers are folded": _TYPE,
    "signs: the dtype of a product is ignored": _TYPE,
    "slices: slices that overlap are one": _COST,
    "residuals: dear equations are computed again": _COST,
    "residuals: a value is larger than what it replaces": _COST,
    "loops: larger arrays are hoisted": _COST,
    "products: pieces are larger than OpenBLAS does alone": _COST,
    **dict.fromkeys(
        (
            "slices: what is added to zeros keeps -0.0",
            "rewrite: 0.0 and -0.0 are one parameter",
            "rewrite: effects are shared",
            "rewrite: other readers of a chain are ignored",
            "rewrite: the type of what is found",
            "rewrite: an effect inside of a body is none",
            "passes: weak values are folded",
            "passes: impure equations are folded",
            "associating: two negations are one",
            "associating: products that others read are joined",
            "associating: triangles are inverted whole",
            "fission: a term of another type leaves",
            "fission: effects leave behind",
            "fission: effects leave before",
            "scans: effects may be moved",
            "residuals: scans of other lengths are alike",
            "loops: effects are hoisted",
            "sparse: a difference of diagonals is a sum",
            "sparse: what is divided by diagonals",
            "sparse: a diagonal along the other axis",
            "kernels: large angles are reduced by three parts",
            "kernels: extrema of a view are found as they stand",
            "lines: an array that others read is added to",
            "lines: an array of the user's is added to",
            "masking: what is broadcast is added in one",
            "masking: the places of another array",
            "masking: counts along other axes",
            "blocks: what a partner makes is not touched",
            "blocks: extrema of columns by their places",
            "lifetimes: carries die in the step",
            "places: a value repeated to another shape is the same",
            "writing: sums of other dtypes are written",
            "writing: parts of other dtypes are added",
            "writing: a sum of rows keeps -0.0",
            "writing: what is broadcast is added to a part",
            "writing: a product is written over its factor",
            "writing: a sum is written over its rows",
        ),
        _OPEN,
    ),
}
