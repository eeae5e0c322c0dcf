"""Passes over data movement: reshapes, transposes, converts, slices and copies."""
