"""Kernels for GPUs, in a form that all GPU targets share: LLVM text and calls of `@gpu.*`."""
