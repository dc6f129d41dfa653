"""How a running Python program is observed."""
