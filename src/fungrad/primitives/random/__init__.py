"""Random bits, and the samples that rejection makes of them."""
