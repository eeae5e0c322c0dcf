"""Transpositions and dynamic-update-slice on GPUs."""
