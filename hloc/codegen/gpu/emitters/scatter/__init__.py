"""Scatters on GPUs."""
