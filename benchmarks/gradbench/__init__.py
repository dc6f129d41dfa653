"""fungrad's tool for GradBench: `python -m benchmarks.gradbench` answers on stdin/stdout.

One module for each of the twelve evals, written with plain NumPy and fungrad's public names. Each
has a table FUNCTIONS: name -> prepare, and prepare(input) returns what the clock sees (a call
without arguments) and what it does not (the encoding of the result as JSON).
"""
