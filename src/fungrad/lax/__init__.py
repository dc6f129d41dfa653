"""Floor 8: JAX's lax (`fungrad.lax`): structured control flow, gathers and scatters, slices at
traced places, windows and convolutions, reductions; and NumPy's functions by JAX's names.

Special functions need SciPy, and come from `fungrad.scipy.special` when they are asked for.
"""

import importlib
from typing import Any

from fungrad.lax.choosing import add as add
from fungrad.lax.choosing import clamp as clamp
from fungrad.lax.choosing import dot_general as dot_general
from fungrad.lax.choosing import max as max
from fungrad.lax.choosing import min as min
from fungrad.lax.choosing import mul as mul
from fungrad.lax.choosing import rsqrt as rsqrt
from fungrad.lax.choosing import select_n as select_n
from fungrad.lax.choosing import sort as sort
from fungrad.lax.choosing import top_k as top_k
from fungrad.lax.control import cond as cond
from fungrad.lax.control import fori_loop as fori_loop
from fungrad.lax.control import map as map
from fungrad.lax.control import scan as scan
from fungrad.lax.control import switch as switch
from fungrad.lax.control import while_loop as while_loop
from fungrad.lax.convolution import ConvDimensionNumbers as ConvDimensionNumbers
from fungrad.lax.convolution import conv as conv
from fungrad.lax.convolution import conv_dimension_numbers as conv_dimension_numbers
from fungrad.lax.convolution import conv_general_dilated as conv_general_dilated
from fungrad.lax.convolution import conv_with_general_padding as conv_with_general_padding
from fungrad.lax.convolution import padtype_to_pads as padtype_to_pads
from fungrad.lax.convolution import reduce_window as reduce_window
from fungrad.lax.convolution_forms import conv_general_dilated_local as conv_general_dilated_local
from fungrad.lax.convolution_forms import (
    conv_general_dilated_patches as conv_general_dilated_patches,
)
from fungrad.lax.convolution_forms import conv_transpose as conv_transpose
from fungrad.lax.cumulative import associative_scan as associative_scan
from fungrad.lax.cumulative import cumlogsumexp as cumlogsumexp
from fungrad.lax.cumulative import cummax as cummax
from fungrad.lax.cumulative import cummin as cummin
from fungrad.lax.cumulative import cumprod as cumprod
from fungrad.lax.cumulative import cumsum as cumsum
from fungrad.lax.cumulative import select as select
from fungrad.lax.elementwise import SPECIAL as _SPECIAL
from fungrad.lax.elementwise import RoundingMethod as RoundingMethod
from fungrad.lax.elementwise import abs as abs
from fungrad.lax.elementwise import acos as acos
from fungrad.lax.elementwise import acosh as acosh
from fungrad.lax.elementwise import asin as asin
from fungrad.lax.elementwise import asinh as asinh
from fungrad.lax.elementwise import atan as atan
from fungrad.lax.elementwise import atan2 as atan2
from fungrad.lax.elementwise import atanh as atanh
from fungrad.lax.elementwise import bitwise_and as bitwise_and
from fungrad.lax.elementwise import bitwise_not as bitwise_not
from fungrad.lax.elementwise import bitwise_or as bitwise_or
from fungrad.lax.elementwise import bitwise_xor as bitwise_xor
from fungrad.lax.elementwise import cbrt as cbrt
from fungrad.lax.elementwise import ceil as ceil
from fungrad.lax.elementwise import clz as clz
from fungrad.lax.elementwise import complex as complex
from fungrad.lax.elementwise import conj as conj
from fungrad.lax.elementwise import cos as cos
from fungrad.lax.elementwise import cosh as cosh
from fungrad.lax.elementwise import div as div
from fungrad.lax.elementwise import eq as eq
from fungrad.lax.elementwise import exp as exp
from fungrad.lax.elementwise import exp2 as exp2
from fungrad.lax.elementwise import expm1 as expm1
from fungrad.lax.elementwise import floor as floor
from fungrad.lax.elementwise import ge as ge
from fungrad.lax.elementwise import gt as gt
from fungrad.lax.elementwise import imag as imag
from fungrad.lax.elementwise import integer_pow as integer_pow
from fungrad.lax.elementwise import is_finite as is_finite
from fungrad.lax.elementwise import le as le
from fungrad.lax.elementwise import log as log
from fungrad.lax.elementwise import log1p as log1p
from fungrad.lax.elementwise import logistic as logistic
from fungrad.lax.elementwise import lt as lt
from fungrad.lax.elementwise import ne as ne
from fungrad.lax.elementwise import neg as neg
from fungrad.lax.elementwise import nextafter as nextafter
from fungrad.lax.elementwise import population_count as population_count
from fungrad.lax.elementwise import pow as pow
from fungrad.lax.elementwise import real as real
from fungrad.lax.elementwise import reciprocal as reciprocal
from fungrad.lax.elementwise import rem as rem
from fungrad.lax.elementwise import round as round
from fungrad.lax.elementwise import shift_left as shift_left
from fungrad.lax.elementwise import shift_right_arithmetic as shift_right_arithmetic
from fungrad.lax.elementwise import shift_right_logical as shift_right_logical
from fungrad.lax.elementwise import sign as sign
from fungrad.lax.elementwise import sin as sin
from fungrad.lax.elementwise import sinh as sinh
from fungrad.lax.elementwise import sqrt as sqrt
from fungrad.lax.elementwise import square as square
from fungrad.lax.elementwise import sub as sub
from fungrad.lax.elementwise import tan as tan
from fungrad.lax.elementwise import tanh as tanh
from fungrad.lax.gathering import gather as gather
from fungrad.lax.gathering import scatter as scatter
from fungrad.lax.gathering import scatter_add as scatter_add
from fungrad.lax.gathering import scatter_apply as scatter_apply
from fungrad.lax.gathering import scatter_max as scatter_max
from fungrad.lax.gathering import scatter_min as scatter_min
from fungrad.lax.gathering import scatter_mul as scatter_mul
from fungrad.lax.gathering import scatter_sub as scatter_sub
from fungrad.lax.placing import GatherDimensionNumbers as GatherDimensionNumbers
from fungrad.lax.placing import GatherScatterMode as GatherScatterMode
from fungrad.lax.placing import ScatterDimensionNumbers as ScatterDimensionNumbers
from fungrad.lax.reducing import argmax as argmax
from fungrad.lax.reducing import argmin as argmin
from fungrad.lax.reducing import batch_matmul as batch_matmul
from fungrad.lax.reducing import dot as dot
from fungrad.lax.reducing import reduce as reduce
from fungrad.lax.reducing import reduce_and as reduce_and
from fungrad.lax.reducing import reduce_max as reduce_max
from fungrad.lax.reducing import reduce_min as reduce_min
from fungrad.lax.reducing import reduce_or as reduce_or
from fungrad.lax.reducing import reduce_prod as reduce_prod
from fungrad.lax.reducing import reduce_sum as reduce_sum
from fungrad.lax.reducing import reduce_xor as reduce_xor
from fungrad.lax.reshaping import broadcast as broadcast
from fungrad.lax.reshaping import broadcast_like as broadcast_like
from fungrad.lax.reshaping import broadcast_shapes as broadcast_shapes
from fungrad.lax.reshaping import broadcast_to_rank as broadcast_to_rank
from fungrad.lax.reshaping import collapse as collapse
from fungrad.lax.reshaping import convert_element_type as convert_element_type
from fungrad.lax.reshaping import dtype as dtype
from fungrad.lax.reshaping import empty as empty
from fungrad.lax.reshaping import full as full
from fungrad.lax.reshaping import full_like as full_like
from fungrad.lax.reshaping import index_in_dim as index_in_dim
from fungrad.lax.reshaping import reshape as reshape
from fungrad.lax.reshaping import slice as slice
from fungrad.lax.reshaping import slice_in_dim as slice_in_dim
from fungrad.lax.reshaping import sort_key_val as sort_key_val
from fungrad.lax.reshaping import split as split
from fungrad.lax.reshaping import squeeze as squeeze
from fungrad.lax.reshaping import stack as stack
from fungrad.lax.reshaping import tile as tile
from fungrad.lax.reshaping import transpose as transpose
from fungrad.lax.reshaping import unstack as unstack
from fungrad.lax.slicing import broadcast_in_dim as broadcast_in_dim
from fungrad.lax.slicing import broadcasted_iota as broadcasted_iota
from fungrad.lax.slicing import concatenate as concatenate
from fungrad.lax.slicing import dynamic_index_in_dim as dynamic_index_in_dim
from fungrad.lax.slicing import dynamic_slice as dynamic_slice
from fungrad.lax.slicing import dynamic_slice_in_dim as dynamic_slice_in_dim
from fungrad.lax.slicing import dynamic_update_index_in_dim as dynamic_update_index_in_dim
from fungrad.lax.slicing import dynamic_update_slice as dynamic_update_slice
from fungrad.lax.slicing import dynamic_update_slice_in_dim as dynamic_update_slice_in_dim
from fungrad.lax.slicing import expand_dims as expand_dims
from fungrad.lax.slicing import iota as iota
from fungrad.lax.slicing import pad as pad
from fungrad.lax.slicing import rev as rev
from fungrad.primitives.stopping import stop_gradient as stop_gradient

_IMPLICIT = ("custom_linear_solve", "custom_root")


def __getattr__(name: str) -> Any:
    if name == "linalg":
        return importlib.import_module("fungrad.lax.linalg")
    if name in _SPECIAL:
        return getattr(importlib.import_module("fungrad.scipy.special"), _SPECIAL[name])
    if name in _IMPLICIT:
        return getattr(importlib.import_module("fungrad.structural.implicit"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SPECIAL, *_IMPLICIT, "linalg"})
