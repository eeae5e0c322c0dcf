"""Whole models in JAX at their published sizes, with random weights, for `bench_models.py`."""
