"""What kernels for CPUs and GPUs share: problems, tiles and numbers, independent of the machine."""
