"""Programs of JAX libraries from PyPI, compiled by hloc and by XLA: `make libraries`."""
