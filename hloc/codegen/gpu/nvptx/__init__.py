"""NVIDIA GPUs: from the kernels of `codegen/gpu` to PTX and cubins."""
