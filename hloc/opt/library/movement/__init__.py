"""Passes that move data less: reshapes, transposes, converts, slices and copies."""
