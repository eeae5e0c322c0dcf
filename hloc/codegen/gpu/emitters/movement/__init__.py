"""Transposes and dynamic-update-slice on GPUs."""
