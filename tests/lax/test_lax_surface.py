"""jax.lax's public names: each is in fungrad.lax, or docs/lax.md says why not."""

from __future__ import annotations

import inspect
import operator
import re
from pathlib import Path

import numpy as np
import pytest

from fungrad import lax

# Of jax 0.10, without the objects of primitives (*_p), which are JAX's inside.
NAMES = """
AccuracyMode ConvDimensionNumbers ConvGeneralDilatedDimensionNumbers DotAlgorithm
DotAlgorithmPreset DotDimensionNumbers FftType GatherDimensionNumbers GatherScatterMode Precision
PrecisionLike RaggedDotDimensionNumbers RandomAlgorithm RoundingMethod ScatterDimensionNumbers
Tolerance abs acos acosh add after_all all_gather all_to_all approx_max_k approx_min_k argmax
argmin asin asinh associative_scan atan atan2 atanh axis_index axis_size batch_matmul bessel_i0e
bessel_i1e betainc bitcast_convert_type bitwise_and bitwise_not bitwise_or bitwise_xor broadcast
broadcast_in_dim broadcast_like broadcast_shapes broadcast_to_rank broadcasted_iota cbrt ceil
clamp clz collapse complex composite concatenate cond conj conv conv_dimension_numbers
conv_general_dilated conv_general_dilated_local conv_general_dilated_patches
conv_general_permutations conv_general_shape_tuple conv_shape_tuple conv_transpose
conv_transpose_shape_tuple conv_with_general_padding convert_element_type cos cosh create_token
cumlogsumexp cummax cummin cumprod cumsum custom_linear_solve custom_root dce_sink digamma div dot
dot_general dtype dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim
dynamic_update_index_in_dim dynamic_update_slice dynamic_update_slice_in_dim empty eq erf erf_inv
erfc exp exp2 expand_dims expm1 fft floor fori_loop full full_like gather ge gt igamma
igamma_grad_a igammac imag index_in_dim index_take integer_pow iota is_finite le lgamma linalg
linalg.EigImplementation linalg.EighImplementation linalg.SvdAlgorithm linalg.cholesky
linalg.cholesky_update linalg.eig linalg.eigh linalg.hessenberg linalg.householder_product
linalg.lu linalg.lu_pivots_to_permutation linalg.ormqr linalg.qdwh linalg.qr linalg.schur
linalg.svd linalg.symmetric_product linalg.triangular_solve linalg.tridiagonal
linalg.tridiagonal_solve log log1p logistic lt map max min mul mulhi ne neg nextafter
optimization_barrier pad padtype_to_pads pbroadcast pcast platform_dependent pmax pmean pmin
polygamma population_count pow ppermute precv psend pshuffle psum psum_scatter pswapaxes
ragged_all_to_all ragged_dot ragged_dot_general random_gamma_grad real reciprocal reduce
reduce_and reduce_max reduce_min reduce_or reduce_precision reduce_prod reduce_sum reduce_window
reduce_window_shape_tuple reduce_xor rem reshape rev rng_bit_generator rng_uniform round rsqrt
scaled_dot scan scatter scatter_add scatter_apply scatter_max scatter_min scatter_mul scatter_sub
select select_n shape_as_value shift_left shift_right_arithmetic shift_right_logical sign sin sinh
slice slice_in_dim sort sort_key_val split sqrt square squeeze stack stage stop_gradient sub
switch tan tanh tile top_k transpose unstack while_loop with_sharding_constraint zeta
""".split()

PAGE = Path(__file__).parents[2] / "docs" / "lax.md"

SIGNATURES = {
    "argmax": ("operand", "axis", "index_dtype"),
    "batch_matmul": ("lhs", "rhs", "precision"),
    "conv_general_dilated": (
        "lhs", "rhs", "window_strides", "padding", "lhs_dilation", "rhs_dilation",
        "dimension_numbers", "feature_group_count", "batch_group_count", "precision",
        "preferred_element_type", "out_sharding",
    ),
    "conv_general_dilated_patches": (
        "lhs", "filter_shape", "window_strides", "padding", "lhs_dilation", "rhs_dilation",
        "dimension_numbers", "precision", "preferred_element_type",
    ),
    "conv_transpose": (
        "lhs", "rhs", "strides", "padding", "rhs_dilation", "dimension_numbers",
        "transpose_kernel", "precision", "preferred_element_type", "use_consistent_padding",
    ),
    "reduce": ("operands", "init_values", "computation", "dimensions", "out_sharding"),
    "slice": ("operand", "start_indices", "limit_indices", "strides"),
    "gather": (
        "operand", "start_indices", "dimension_numbers", "slice_sizes", "unique_indices",
        "indices_are_sorted", "mode", "fill_value",
    ),
    "scatter_min": (
        "operand", "scatter_indices", "updates", "dimension_numbers", "indices_are_sorted",
        "unique_indices", "mode",
    ),
    "scatter_apply": (
        "operand", "scatter_indices", "func", "dimension_numbers", "update_shape",
        "indices_are_sorted", "unique_indices", "mode",
    ),
    "linalg.eigh": (
        "x", "lower", "symmetrize_input", "sort_eigenvalues", "subset_by_index", "implementation",
    ),
    "linalg.triangular_solve": (
        "a", "b", "left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal",
    ),
}  # fmt: skip


def excluded():
    """name -> reason, as the page's first table has it."""
    table = PAGE.read_text(encoding="utf-8").split("## Names that are missing")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \| (.*) \|$", table, flags=re.MULTILINE)
    return {name: reason for names, reason in rows for name in re.findall(r"`([^`]*)`", names)}


def is_there(name):
    try:
        operator.attrgetter(name)(lax)
    except AttributeError:
        return False
    return True


def test_every_name_is_there_or_left_out_for_a_reason():
    left_out = excluded()
    assert len(NAMES) == len(set(NAMES)) > 200
    assert set(left_out) <= set(NAMES)
    assert all(len(reason) > 5 for reason in left_out.values())
    wrong = [name for name in NAMES if is_there(name) == (name in left_out)]
    assert not wrong


@pytest.mark.parametrize("name", SIGNATURES)
def test_arguments_have_jax_s_names(name):
    function = operator.attrgetter(name)(lax)
    assert tuple(inspect.signature(function).parameters) == SIGNATURES[name]


def test_what_is_numpy_s_is_numpy_s():
    for name, ufunc in {"sub": np.subtract, "atan2": np.arctan2, "rem": np.fmod}.items():
        assert getattr(lax, name) is ufunc
