"""Routines of NVIDIA's libraries that take the place of kernels where the user asks for them."""
