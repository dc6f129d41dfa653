"""The native backend: LLVM IR made from Graphs, compiled by llvmlite; the extra `native`."""
