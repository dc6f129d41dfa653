"""What generated programs call while they run: buffers, threads, kernels. Knows NumPy alone."""
