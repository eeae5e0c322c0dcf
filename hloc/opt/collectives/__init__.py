"""Passes that reduce the number and size of collectives, identically on every device."""
