"""Gemms and convolutions on GPUs."""
