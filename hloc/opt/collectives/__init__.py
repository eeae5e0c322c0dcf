"""Passes that make collectives fewer and smaller, the same on every device."""
