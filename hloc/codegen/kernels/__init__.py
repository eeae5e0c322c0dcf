"""What kernels for processors and GPUs share: the problem, its tiles and numbers; no machine."""
