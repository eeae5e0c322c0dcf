"""Gemms: packing, micro-kernels, gemms of few rows or columns, epilogues."""
