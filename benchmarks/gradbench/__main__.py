"""The tool: `python -m benchmarks.gradbench`."""

from benchmarks.gradbench.server import main

main()
