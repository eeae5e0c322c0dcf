"""Passes about dot and convolution."""
