"""Small JAX programs with loops, of the kind that users report as slow on XLA:CPU."""
