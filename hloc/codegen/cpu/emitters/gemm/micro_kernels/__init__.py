"""Micro-kernels: a tile of the result stays in registers over the loop along k."""
