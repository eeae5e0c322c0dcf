"""Passes over linear-algebra opcodes: cholesky, triangular-solve."""
