"""The run-time library of generated programs: buffers, threads, kernels."""
