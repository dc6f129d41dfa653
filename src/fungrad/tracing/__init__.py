"""Floor 2: how a running Python program is observed. Knows the IR; knows no primitive and no
transform.
"""
