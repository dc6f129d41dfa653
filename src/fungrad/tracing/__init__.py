"""How a running Python program is observed. Knows the IR; knows no primitive and no
transform.
"""
