"""The intermediate representation. Knows NumPy's dtypes; knows no trace and no
transform.
"""
