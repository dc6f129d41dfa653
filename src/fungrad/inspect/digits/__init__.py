"""How many digits of a result are right, and which lines lose the others."""
