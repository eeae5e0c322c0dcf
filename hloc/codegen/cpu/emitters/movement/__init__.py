"""Kernels that move elements: concatenate, dynamic-update-slice."""
