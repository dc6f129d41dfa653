"""Process replay: the same compiled programs, before and after a change of the compiler.

    python -m benchmarks.replay record FILE        # with the revision to compare with
    python -m benchmarks.replay check FILE         # with the code at hand
    python -m benchmarks.replay compare OLD_SRC FILE

`record` collects closed Graphs from all of the repository (cases, samples of primitives, random
programs, sessions of the documentation) and writes them, as `fg.save` does, with their inputs and
with what came out of the reference evaluator, of compiled code, and
of the module that `to_source` writes. `check` compiles the Graphs again and compares to the bit.
`compare` times two source trees in turns. The idea is tinygrad's.
"""
