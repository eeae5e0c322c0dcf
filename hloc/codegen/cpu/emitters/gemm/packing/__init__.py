"""Packing: operands in the order in which micro-kernels read them."""
