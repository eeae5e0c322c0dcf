"""Passes about gather, scatter and dynamic slices."""
