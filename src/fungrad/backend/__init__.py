"""Floor 6: backends. One turns a checked Graph into a function of arrays; `straight` is the usual
one.
"""
