"""Samples of the rest of scipy.special's ufuncs: `UFUNCS[name]` holds its arguments in order.

A number is an argument without a derivative (a degree, an order); a pair is a domain.
`PARTS[name]` names the primitives of a ufunc with several outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sampling import F32, F64, add, draw

P = (0.2, 0.8)
"""A domain of probabilities."""
UFUNCS: dict[str, tuple[Any, ...]] = {
    # elementary
    "sindg": ((-90, 90),),
    "cosdg": ((-90, 90),),
    "tandg": ((-70, 70),),
    "cotdg": ((20, 80),),
    "radian": ((-90, 90), (0, 60), (0, 60)),
    "exp10": ((-1, 1),),
    "cosm1": ((-2, 2),),
    "powm1": ((0.3, 2), (-2, 2)),
    "wrightomega": ((-2, 2),),
    "boxcox": ((0.3, 3), (-1, 2)),
    "boxcox1p": ((-0.6, 3), (-1, 2)),
    "inv_boxcox": ((-0.4, 0.6), (-1, 1.2)),
    "inv_boxcox1p": ((-0.4, 0.6), (-1, 1.2)),
    "tklmbda": ((-0.8, 0.8), (-0.5, 0.8)),
    # elliptic
    "elliprc": ((0.4, 2), (0.5, 3)),
    "elliprd": ((0.4, 2), (0.5, 3), (0.6, 2)),
    "elliprf": ((0.4, 2), (0.5, 3), (0.6, 2)),
    "elliprg": ((0.4, 2), (0.5, 3), (0.6, 2)),
    "elliprj": ((0.4, 2), (0.5, 3), (0.6, 2), (0.5, 2.5)),
    "ellipkinc": ((-1.4, 4), (-1, 0.7)),
    "ellipeinc": ((-1.4, 4), (-1, 0.7)),
    "ellipkm1": ((0.1, 1.5),),
    "ellipj": ((-2, 2), (0.1, 0.9)),
    "agm": ((0.5, 2), (0.6, 3)),
    # polynomials
    "eval_chebyt": (3, (-0.9, 0.9)),
    "eval_chebyu": (3, (-0.9, 0.9)),
    "eval_chebyc": (3, (-1.9, 1.9)),
    "eval_chebys": (3, (-1.9, 1.9)),
    "eval_sh_chebyt": (3, (0.1, 0.9)),
    "eval_sh_chebyu": (3, (0.1, 0.9)),
    "eval_legendre": (3, (-0.9, 0.9)),
    "eval_sh_legendre": (3, (0.1, 0.9)),
    "eval_gegenbauer": (3, 2, (-0.9, 0.9)),
    "eval_jacobi": (3, 1, 2, (-0.9, 0.9)),
    "eval_sh_jacobi": (3, 4, 2, (0.1, 0.9)),
    "eval_laguerre": (3, (-1, 3)),
    "eval_genlaguerre": (3, 2, (-1, 3)),
    "eval_hermite": (3, (-1.5, 1.5)),
    "eval_hermitenorm": (3, (-1.5, 1.5)),
    "lpmv": (1, 2, (-0.8, 0.8)),
    # integrals
    "sici": ((0.3, 4),),
    "shichi": ((0.3, 2),),
    "fresnel": ((-1.5, 1.5),),
    "modfresnelp": ((0.2, 1.5),),
    "modfresnelm": ((0.2, 1.5),),
    "expn": (2, (0.4, 2)),
    "iti0k0": ((0.4, 2),),
    "itj0y0": ((0.4, 2),),
    "it2i0k0": ((0.4, 2),),
    "it2j0y0": ((0.4, 2),),
    "besselpoly": ((0.4, 2), 1, 2),
    "struve": (1, (0.4, 3)),
    "modstruve": (1, (0.4, 3)),
    "itstruve0": ((0.4, 3),),
    "itmodstruve0": ((0.4, 3),),
    "it2struve0": ((0.4, 3),),
    "voigt_profile": ((-2, 2), (0.4, 2), (0.3, 2)),
    "owens_t": ((-2, 2), (-2, 2)),
    # hypergeometric
    "hyperu": (1, 2, (0.5, 3)),
    "wright_bessel": (1, 2, (0.3, 2)),
    "log_wright_bessel": (1, 2, (0.3, 2)),
    # solutions of differential equations
    "airy": ((-2, 1.5),),
    "airye": ((0.3, 2),),
    "itairy": ((-2, 1.5),),
    "hankel1": (1, (0.5, 3)),
    "hankel2": (1, (0.5, 3)),
    "hankel1e": (1, (0.5, 3)),
    "hankel2e": (1, (0.5, 3)),
    "jve": (2, (0.5, 3)),
    "yve": (2, (0.5, 3)),
    "ber": ((0.3, 3),),
    "bei": ((0.3, 3),),
    "ker": ((0.3, 3),),
    "kei": ((0.3, 3),),
    "berp": ((0.3, 3),),
    "beip": ((0.3, 3),),
    "kerp": ((0.3, 3),),
    "keip": ((0.3, 3),),
    "kelvin": ((0.3, 3),),
    "pbdv": (2, (-1.5, 1.5)),
    "pbvv": (2, (-1.5, 1.5)),
    "pbwa": (1, (-1.5, 1.5)),
    "mathieu_cem": (2, 1, (10, 80)),
    "mathieu_sem": (2, 1, (10, 80)),
    "mathieu_modcem1": (2, 1, (0.2, 1)),
    "mathieu_modcem2": (2, 1, (0.2, 1)),
    "mathieu_modsem1": (2, 1, (0.2, 1)),
    "mathieu_modsem2": (2, 1, (0.2, 1)),
    "pro_ang1": (1, 2, 1, (-0.7, 0.7)),
    "pro_ang1_cv": (1, 2, 1, 6.424699143775136, (-0.7, 0.7)),
    "pro_rad1": (1, 2, 1, (1.3, 3)),
    "pro_rad1_cv": (1, 2, 1, 6.424699143775136, (1.3, 3)),
    "pro_rad2": (1, 2, 1, (2.2, 3)),
    "pro_rad2_cv": (1, 2, 1, 6.424699143775136, (2.2, 3)),
    "obl_ang1": (1, 2, 1, (-0.7, 0.7)),
    "obl_ang1_cv": (1, 2, 1, 5.567527453869735, (-0.7, 0.7)),
    "obl_rad1": (1, 2, 1, (0.4, 3)),
    "obl_rad1_cv": (1, 2, 1, 5.567527453869735, (0.4, 3)),
    "obl_rad2": (1, 2, 1, (2.2, 3)),
    "obl_rad2_cv": (1, 2, 1, 5.567527453869735, (2.2, 3)),
    # distributions
    "betaincc": ((0.5, 3), (0.6, 2), P),
    "betainccinv": ((0.5, 3), (0.6, 2), P),
    "btdtria": (P, (0.6, 2), P),
    "btdtrib": ((0.6, 2), P, P),
    "bdtr": (2, 5, P),
    "bdtrc": (2, 5, P),
    "bdtri": (2, 5, P),
    "bdtrik": ((0.3, 0.7), (5, 9), (0.3, 0.7)),
    "bdtrin": ((2, 4), (0.3, 0.7), (0.3, 0.7)),
    "nbdtr": (2, 5, P),
    "nbdtrc": (2, 5, P),
    "nbdtri": (2, 5, P),
    "nbdtrik": ((0.5, 0.8), (3, 6), (0.2, 0.6)),
    "nbdtrin": ((3, 6), (0.3, 0.7), (0.3, 0.7)),
    "fdtr": ((2, 6), (3, 5), (0.5, 2)),
    "fdtrc": ((2, 6), (3, 5), (0.5, 2)),
    "fdtri": ((2, 6), (3, 5), P),
    "fdtridfd": ((2.5, 2.6), (0.64, 0.66), (1.5, 1.55)),
    "chdtr": ((1, 6), (0.5, 4)),
    "chdtrc": ((1, 6), (0.5, 4)),
    "chdtri": ((1, 6), P),
    "chdtriv": (P, (0.5, 4)),
    "stdtridf": ((0.7, 0.72), (0.75, 0.85)),
    "pdtr": (2, (0.5, 4)),
    "pdtrc": (2, (0.5, 4)),
    "pdtri": (2, P),
    "pdtrik": ((0.4, 0.8), (2, 5)),
    "gdtr": ((0.5, 2), (0.5, 3), (0.5, 2)),
    "gdtrc": ((0.5, 2), (0.5, 3), (0.5, 2)),
    "gdtria": (P, (0.5, 3), (0.5, 2)),
    "gdtrib": ((0.5, 2), P, (0.5, 2)),
    "gdtrix": ((0.5, 2), (0.5, 3), P),
    "nrdtrimn": ((0.55, 0.9), (0.5, 2), (-2, 2)),
    "nrdtrisd": ((-2, 0.5), (0.55, 0.9), (1, 2)),
    "kolmogorov": ((0.5, 1.6),),
    "kolmogi": (P,),
    "chndtr": ((1, 8), 3, (0.5, 3)),
    "chndtrix": (P, 3, (0.5, 3)),
    "chndtrinc": ((6, 9), 3, (0.3, 0.6)),
    "ncfdtr": (3, 5, (0.5, 3), (0.5, 3)),
    "ncfdtri": (3, 5, (0.5, 3), P),
    "ncfdtrinc": (3, 5, (0.2, 0.4), (1.5, 3)),
    "nctdtr": (5, 1, (0.3, 3)),
    "nctdtrit": (5, 1, P),
    "zetac": ((1.5, 4),),
    # complex
    "wofz": ((-2, 2),),
    # flat, on purpose
    "round": ((-2, 2),),
    "gammasgn": ((-2.5, 2.5),),
    # without a formula
    "smirnov": (5, 1),
    "smirnovi": (5, 1),
    "mathieu_a": (2, 1),
    "mathieu_b": (2, 1),
    "pro_cv": (1, 2, 1),
    "obl_cv": (1, 2, 1),
    "chndtridf": (2.0, 0.3, 1.0),
    "ncfdtridfd": (3.0, 0.6, 1.0, 2.0),
    "ncfdtridfn": (0.6, 5.0, 1.0, 2.0),
    "nctdtridf": (0.5, 1.0, 1.2),
    "nctdtrinc": (5.0, 0.3, 2.0),
}
PARTS: dict[str, tuple[str, ...]] = {
    "round": ("round_half_even",),
    "ellipj": ("ellipj_sn", "ellipj_cn", "ellipj_dn", "ellipj_ph"),
    "sici": ("sici_si", "sici_ci"),
    "shichi": ("shichi_shi", "shichi_chi"),
    "fresnel": ("fresnel_s", "fresnel_c"),
    "modfresnelp": ("modfresnelp_f", "modfresnelp_k"),
    "modfresnelm": ("modfresnelm_f", "modfresnelm_k"),
    "iti0k0": ("iti0k0_i0", "iti0k0_k0"),
    "itj0y0": ("itj0y0_j0", "itj0y0_y0"),
    "it2i0k0": ("it2i0k0_i0", "it2i0k0_k0"),
    "it2j0y0": ("it2j0y0_j0", "it2j0y0_y0"),
    "airy": ("airy_ai", "airy_aip", "airy_bi", "airy_bip"),
    "airye": ("airye_ai", "airye_aip", "airye_bi", "airye_bip"),
    "itairy": ("itairy_ai", "itairy_bi", "itairy_ai_left", "itairy_bi_left"),
    "kelvin": (),
}
SOLUTIONS = ("pb", "mathieu_", "pro_", "obl_")
PARTS |= {
    name: (f"{name}_value", f"{name}_slope")
    for name in UFUNCS
    if name.startswith(SOLUTIONS) and name not in ("mathieu_a", "mathieu_b", "pro_cv", "obl_cv")
}

NO_FORMULA = (
    "smirnov", "smirnovi", "mathieu_a", "mathieu_b", "pro_cv", "obl_cv", "chndtridf",
    "ncfdtridfd", "ncfdtridfn", "nctdtridf", "nctdtrinc",
)  # fmt: skip
"""Batched and compiled, but without a derivative in any argument."""


COARSE = ("ncfdtrinc",)
"""Found by SciPy to fewer digits than finite differences need."""


def arguments(name: str, shape: tuple[int, ...], dtype: Any) -> list[Any]:
    """Arguments of a ufunc: numbers as they are, and arrays from its domains."""
    return [
        a if isinstance(a, (int, float)) else draw(f"{name}{i}", shape, dtype, *a)
        for i, a in enumerate(UFUNCS[name])
    ]


for _name in UFUNCS:
    for _primitive in PARTS.get(_name, (_name,)):
        for _shape, _dtype in (((3,), F64), ((), F64), ((2, 1), F32)):
            if _name == "pbvv" or _name.startswith(("mathieu_", "pro_", "obl_")):
                _dtype = F64  # SciPy's loops over single precision give NaN, or do not end
            if _name == "wofz":
                _dtype = np.result_type(_dtype, np.complex64)
            if _name in NO_FORMULA:
                _turn = np.arange(np.prod(_shape, dtype=int)).reshape(_shape)
                _steps = [_turn if isinstance(a, int) else _turn / 32 for a in UFUNCS[_name]]
                _values = [a + step for a, step in zip(UFUNCS[_name], _steps, strict=True)]
                add(_primitive, *_values, upto=-1)
            else:
                _order = 1 if _name in COARSE else -1 if _name.endswith("_cv") else 2
                if _dtype == F32 or _name not in COARSE:
                    add(_primitive, *arguments(_name, _shape, _dtype), upto=_order)
for _shape, _dtype in (((3,), F64), ((2, 1), F32)):
    _domains = ((0.4, 2), (0.5, 3), (0.6, 2), (0.5, 2.5))
    _arrays = [draw(f"carlson{i}", _shape, _dtype, *d) for i, d in enumerate(_domains)]
    add("carlson", *_arrays, 0.5, 1.5, 0.5, 1.0, fixed=(4, 5, 6, 7))
add("riemann_zeta", np.array([2, 3, 4]))
add("riemann_zeta", np.array([-3.2, -0.3, 0.3, 1.7, 4.0]))
add("riemann_zeta", 2.5)
add("gammasgn", np.array([-0.5, 0.5, -1.5]))
