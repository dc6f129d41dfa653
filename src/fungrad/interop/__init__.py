"""Adapters that give exact derivatives to other packages, one module for each package.

`from fungrad.interop import lmfit` gives the adapter for lmfit. Each module imports its package,
and needs the extra of that name.
"""
