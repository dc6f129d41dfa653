"""`logsumexp`, which older clients find in autograd.scipy.misc."""

from fungrad.scipy.special import logsumexp as logsumexp

__all__ = ["logsumexp"]
