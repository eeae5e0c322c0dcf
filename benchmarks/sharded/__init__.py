"""JAX programs for several devices; `dump.py` writes down what XLA makes of each."""
