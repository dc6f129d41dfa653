"""Samples of the primitives of fungrad.scipy.linalg."""

from __future__ import annotations

import numpy as np
from samples_linalg import positive, regular
from sampling import C64, C128, F32, F64, add, draw

import fungrad.scipy.linalg  # noqa: F401 - its primitives are declared when it is imported
from fungrad.scipy.sparse.linalg import LU, Method, Options, Structure

for dtype in (F64, C128, F32):
    single = dtype == F32
    for name in ("expm", "sqrtm", "logm", "signm")[: 4 if dtype == F64 else 2]:
        a = regular(name, (2, 2), dtype)
        if name == "signm":
            a = (a - 1.6 * np.eye(2)).astype(dtype)
        order = 1 if name == "logm" else 2
        add("matrix_function", a, name=name, upto=order)
        order = 0 if name == "logm" else 1  # its second derivative is compared in test_scipy_linalg
        add("frechet", a, draw("along", (2, 2), dtype), name=name, upto=order)
    a, b = regular("sylvester", (3, 3), dtype), regular("sylvester", (2, 2), dtype)
    add("sylvester", a, b, draw("right", (3, 2), dtype))
    for below, above in ((1, 1), (2, 0), (0, 1)):
        ab = draw("banded", (below + above + 1, 4), dtype)
        ab[above] += 6
        add("solve_banded", ab, draw("columns", (4, 2), dtype), u=above, definite=False)
    for shape in ((3, 3), (4, 2), (2, 3)):
        add("lu", draw("lu", shape, dtype))
        add("lu_pivots", draw("lu", shape, dtype))
    for shape in ((3, 3), (4, 2)):
        add("unitary_factor", draw("polar", shape, dtype))
    add("full_rank", positive("rank", (2, 2), dtype, True))
    add("finite", draw("finite", (3,), dtype))
    if not single:
        add("left_vectors", regular("left", (3, 3), dtype), upto=0)
for dtype in (F64, F32):
    a = positive("funm", (2, 2), dtype, True)
    along = [positive(f"along{i}", (2, 2), dtype, True) for i in range(2)]
    add("hermitian_function", a, f=np.log)
    add("hermitian_function", a, along[0], f=np.log)
    add("hermitian_function", np.eye(2, dtype=dtype), *along, f=np.exp, upto=1)
for a in (np.zeros((2, 2)), np.array([[0.0, 1.0], [0.0, 0.0]])):
    add("matrix_function", a, name="expm")
band = np.array([[0.0, 1.0, -0.5, 0.3], [5.0, 6.0, 7.0, 8.0], [1.0, -0.5, 0.3, 0.0]])
add("solve_banded", band, draw("columns", (4, 2), F64), u=1, definite=True, upto=0)
add("permutation_of_pivots", np.array([2, 2, 2], np.int32), size=3)
add("permutation_of_pivots", np.array([[1, 1], [0, 1]], np.int32), size=2)
add("finite", np.ones((2, 1), C64), upto=1)


ROWS, COLUMNS = np.array([0, 0, 1, 2, 2, 1, 1]), np.array([0, 1, 1, 2, 0, 2, 2])
SYMMETRIC = Structure(np.array([0, 1, 2, 3, 0, 1]), np.array([0, 1, 2, 3, 1, 0]), 4)
for dtype in (F64, C128):
    data = draw("sparse", (7,), dtype) + np.array([5, 0, 5, 5, 0, 0, 0])
    for transposed in (False, True):
        add("sparse_solve", data.astype(dtype), draw("columns", (3, 2), dtype), method=LU,
            structure=Structure(ROWS, COLUMNS, 3), transposed=transposed, upto=2)  # fmt: skip
real = np.array([3.0, 5.0, 7.0, 11.0, 0.5, 0.5])
add("sparse_solve", real, draw("columns", (4, 1), F64), structure=SYMMETRIC, transposed=False,
    method=Method(lambda a, b: np.linalg.solve(a.toarray(), b)), upto=1)  # fmt: skip
add("sparse_eigsh", real, structures=(SYMMETRIC,),
    options=Options({"k": 2, "v0": np.ones(4)}), upto=0)  # fmt: skip
