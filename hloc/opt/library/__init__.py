"""Passes that no pipeline runs: `--passes=NAME` does, as do scripts and lessons.

They make forms that kernels of hloc do not need, or were measured to make nothing faster.
"""
