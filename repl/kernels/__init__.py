"""Kernels of a state for GPUs: their PTX, runs in the simulator, and single steps of one."""
