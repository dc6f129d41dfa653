"""Floor 4: the transforms. Knows traces and the protocol of primitives; knows no NumPy function
by name.
"""
