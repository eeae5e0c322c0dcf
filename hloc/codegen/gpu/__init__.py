"""Kernels for GPUs in a form that all GPU targets share: LLVM text with calls of `@gpu.*`."""
