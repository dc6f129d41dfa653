"""Floor 1: the intermediate representation. Knows NumPy's dtypes; knows no trace and no
transform.
"""
