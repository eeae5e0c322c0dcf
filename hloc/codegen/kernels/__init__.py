"""The target-independent part of kernels for CPUs and GPUs: problems, tiles, sizes."""
