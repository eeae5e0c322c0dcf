"""Passes over gather, scatter and dynamic slices."""
