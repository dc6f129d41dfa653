"""The transforms. Knows traces and the protocol of primitives; knows no NumPy function
by name.
"""
