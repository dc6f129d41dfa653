"""Floor 8: JAX's lax, as far as NumPy lacks it: structured control flow, slices at traced
places, windows and convolutions (`fungrad.lax`).
"""

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
from fungrad.lax.convolution import conv as conv
from fungrad.lax.convolution import conv_general_dilated as conv_general_dilated
from fungrad.lax.convolution import conv_with_general_padding as conv_with_general_padding
from fungrad.lax.convolution import padtype_to_pads as padtype_to_pads
from fungrad.lax.convolution import reduce_window as reduce_window
from fungrad.lax.cumulative import associative_scan as associative_scan
from fungrad.lax.cumulative import cumlogsumexp as cumlogsumexp
from fungrad.lax.cumulative import cummax as cummax
from fungrad.lax.cumulative import cummin as cummin
from fungrad.lax.cumulative import cumprod as cumprod
from fungrad.lax.cumulative import cumsum as cumsum
from fungrad.lax.cumulative import select as select
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
