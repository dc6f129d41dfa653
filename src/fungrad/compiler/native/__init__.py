"""The native backend: compiles Graphs to machine code by llvmlite, the extra `native`."""
