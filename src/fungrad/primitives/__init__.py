"""The primitives. Knows NumPy, the IR and traces; knows no transform, though it holds
their rules.
"""
