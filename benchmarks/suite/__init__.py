"""Programs that hloc is measured with, written in JAX; `bench_suite.py` runs them."""

from benchmarks.suite.program import PROGRAMS, Program

__all__ = ["PROGRAMS", "Program"]
