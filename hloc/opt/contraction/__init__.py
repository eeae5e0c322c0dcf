"""Passes over dot and convolution."""
