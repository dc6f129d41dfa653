"""jax.nn's functions for networks, as compositions: activations, softmax and losses,
convolution, pooling, attention, initializers (`fungrad.nn`). All are pure functions.
"""

from fungrad.nn import initializers as initializers
from fungrad.nn.activations import celu as celu
from fungrad.nn.activations import elu as elu
from fungrad.nn.activations import gelu as gelu
from fungrad.nn.activations import glu as glu
from fungrad.nn.activations import hard_sigmoid as hard_sigmoid
from fungrad.nn.activations import hard_silu as hard_silu
from fungrad.nn.activations import hard_swish as hard_swish
from fungrad.nn.activations import hard_tanh as hard_tanh
from fungrad.nn.activations import identity as identity
from fungrad.nn.activations import leaky_relu as leaky_relu
from fungrad.nn.activations import log1mexp as log1mexp
from fungrad.nn.activations import log_sigmoid as log_sigmoid
from fungrad.nn.activations import mish as mish
from fungrad.nn.activations import relu as relu
from fungrad.nn.activations import relu6 as relu6
from fungrad.nn.activations import selu as selu
from fungrad.nn.activations import sigmoid as sigmoid
from fungrad.nn.activations import silu as silu
from fungrad.nn.activations import soft_sign as soft_sign
from fungrad.nn.activations import softplus as softplus
from fungrad.nn.activations import sparse_plus as sparse_plus
from fungrad.nn.activations import sparse_sigmoid as sparse_sigmoid
from fungrad.nn.activations import squareplus as squareplus
from fungrad.nn.activations import swish as swish
from fungrad.nn.activations import tanh as tanh
from fungrad.nn.layers import avg_pool as avg_pool
from fungrad.nn.layers import conv as conv
from fungrad.nn.layers import dot_product_attention as dot_product_attention
from fungrad.nn.layers import log_softmax as log_softmax
from fungrad.nn.layers import logmeanexp as logmeanexp
from fungrad.nn.layers import logsumexp as logsumexp
from fungrad.nn.layers import max_pool as max_pool
from fungrad.nn.layers import min_pool as min_pool
from fungrad.nn.layers import one_hot as one_hot
from fungrad.nn.layers import sigmoid_binary_cross_entropy as sigmoid_binary_cross_entropy
from fungrad.nn.layers import softmax as softmax
from fungrad.nn.layers import softmax_cross_entropy as softmax_cross_entropy
from fungrad.nn.layers import (
    softmax_cross_entropy_with_integer_labels as softmax_cross_entropy_with_integer_labels,
)
from fungrad.nn.layers import standardize as standardize
