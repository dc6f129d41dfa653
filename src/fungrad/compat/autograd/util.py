"""The names of autograd's module util that clients use."""

from fungrad.compat.autograd.wrap_util import subval as subval
from fungrad.compat.autograd.wrap_util import subvals as subvals

__all__ = ["subval", "subvals"]
