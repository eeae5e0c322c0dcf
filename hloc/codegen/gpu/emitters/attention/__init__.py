"""Attention as one kernel on GPUs."""
