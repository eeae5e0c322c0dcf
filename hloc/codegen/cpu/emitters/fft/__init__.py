"""Fourier transforms: plans, butterflies, routines."""
