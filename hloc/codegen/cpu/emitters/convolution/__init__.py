"""Convolutions: as matrix products of windows, and direct ones for few channels per group."""
