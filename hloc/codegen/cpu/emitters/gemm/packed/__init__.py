"""Gemms of packed panels: their axes and tiles, and the loops around micro-kernels."""
